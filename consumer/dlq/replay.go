package dlq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dispatcher/consumer/deadletter"

	"dispatcher/consumer/internal/produce"

	"dispatcher/consumer/internal/broker"

	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/clip"
	"dispatcher/internal/fault"
	"dispatcher/internal/wait"
	"dispatcher/job"
)

// ReplayOptions says how letters are replayed. A zero field means its default.
type ReplayOptions struct {
	To    string  // the topic to write to; empty: each letter's own
	Rate  float64 // letters a second at most; 0: as fast as it goes
	Whole bool    // take letters that were cut from their origin, where the record is still there
	Dry   bool    // only count
}

// Replay writes the jobs of the letters that the filter picks to the topics they
// came from, and settles each letter once Kafka has its job. Key, value and
// headers are those of the first record, with what is said about its origin, and
// so the job keeps its id; the header x-redrive counts. What is said about the
// failure is taken off. The partition is the one that Java clients choose for
// the key; letters of one partition keep their order.
//
// A letter that was cut is not replayed, unless its whole can be had. An error comes beside what was done
// until then; what is counted as unwritten may have been written.
func (l *Client) Replay(ctx context.Context, f Filter, o ReplayOptions) (Tally, error) {
	if o.To != "" && !topicname.Valid(o.To) {
		return Tally{}, fault.New("to", clip.Text(o.To, deadletter.MaxCodeBytes), topicname.Rule)
	}
	if !(o.Rate == 0 || o.Rate >= 0.01) {
		return Tally{}, fault.New("rate", o.Rate, "must be at least 0.01, or 0 for none")
	}
	s := &command{o: &l.opts, f: &f, settles: true, dry: o.Dry}
	if o.Rate > 0 {
		s.batch = int(min(batchLetters, max(1, o.Rate)))
	}
	r := &replayer{o: o, tally: &s.tally, missing: map[string]bool{}, originals: newOriginals(&l.opts.Connection)}
	defer r.originals.close()
	var err error
	if r.out, err = produce.NewBatchWriter(produce.BatchOptions{Connection: l.opts.Connection, Timeout: 2 * Patience}); err != nil {
		return Tally{}, err
	}
	defer func() { _ = r.out.Close() }() // always nil
	return s.run(ctx, r.work)
}

// replayer writes the jobs of letters.
type replayer struct {
	o       ReplayOptions
	out     *produce.BatchWriter
	tally   *Tally
	missing map[string]bool // topics that do not exist
	due     time.Time       // when the rate allows more

	originals *originals
}

// work replays letters in the order they come, at the rate. It ends with a topic
// that can't be written; by then those of other topics may be done.
func (r *replayer) work(ctx context.Context, letters []deadletter.Letter) ([]deadletter.Letter, error) {
	if !wait.For(ctx, time.Until(r.due)) {
		return nil, ctx.Err()
	}
	done, err := r.write(ctx, letters)
	if r.o.Rate > 0 && !r.o.Dry {
		r.due = time.Now().Add(time.Duration(float64(len(done)) / r.o.Rate * float64(time.Second)))
	}
	return done, err
}

func (r *replayer) write(ctx context.Context, letters []deadletter.Letter) (done []deadletter.Letter, err error) {
	var order []string
	parts := map[string][]deadletter.Letter{}
	for i := range letters {
		if err := r.complete(ctx, &letters[i]); err != nil {
			return nil, err
		}
		to, err := r.target(ctx, &letters[i])
		if err != nil {
			return nil, err
		}
		if to == "" {
			continue
		}
		if parts[to] == nil {
			order = append(order, to)
		}
		parts[to] = append(parts[to], letters[i])
	}
	for _, to := range order {
		if r.o.Dry {
			done = append(done, parts[to]...)
			continue
		}
		written, err := r.send(ctx, to, parts[to])
		done = append(done, written...)
		if err != nil {
			return done, fmt.Errorf("write to topic %s: %w", to, err)
		}
	}
	return done, nil
}

// complete makes a letter whole that was cut, where that is wanted and can be.
func (r *replayer) complete(ctx context.Context, l *deadletter.Letter) error {
	if !l.Truncated || !r.o.Whole {
		return nil
	}
	whole, ok, err := r.originals.whole(ctx, l)
	if ok {
		*l = whole
	}
	return err
}

// target is the topic that a letter goes to. Empty: it can't be replayed, and
// has been counted.
func (r *replayer) target(ctx context.Context, l *deadletter.Letter) (string, error) {
	to := r.o.To
	if to == "" {
		to = l.Origin.Topic
	}
	switch {
	case l.Truncated:
		r.tally.Truncated++
		r.tally.note(fmt.Sprintf("%s was too large when it was dead-lettered, and holds only a part of the record that was at %s", l.ID, orUnknown(l.Origin)))
		return "", nil
	case to == "":
		r.tally.NoTopic++
		r.tally.note(fmt.Sprintf("%s does not say which topic it came from", l.ID))
		return "", nil
	}
	if !r.missing[to] {
		err := r.out.Check(ctx, to)
		if _, none := errors.AsType[*broker.MissingTopicError](err); err != nil && !none {
			return "", err
		}
		r.missing[to] = err != nil
	}
	if r.missing[to] {
		r.tally.NoTopic++
		r.tally.note(fmt.Sprintf("topic %s does not exist", to))
		return "", nil
	}
	return to, nil
}

func orUnknown(id deadletter.RecordID) string {
	if id.Topic == "" {
		return "a place it does not name"
	}
	return id.String()
}

// send writes letters of one topic and returns those that Kafka has. It goes on
// to the end when ctx does: a write that was cancelled may still happen. Among
// several errors it prefers one that is not about a record's size.
func (r *replayer) send(ctx context.Context, to string, letters []deadletter.Letter) (done []deadletter.Letter, err error) {
	records := make([]job.Record, len(letters))
	for i := range letters {
		records[i] = deadletter.JobOf(&letters[i])
	}
	faults, err := r.out.Write(context.WithoutCancel(ctx), to, records)
	if err != nil {
		r.tally.Unwritten += int64(len(letters))
		return nil, err
	}
	for i, fault := range faults {
		switch {
		case fault == nil:
			done = append(done, letters[i])
			continue
		case broker.TooLarge(fault): // which is about this letter alone
			r.tally.note(fmt.Sprintf("topic %s does not take a record as large as %s", to, letters[i].ID))
		case err == nil:
			err = broker.KafkaError(fault)
		}
		r.tally.Unwritten++
	}
	return done, err
}
