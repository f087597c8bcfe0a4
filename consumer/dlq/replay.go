package dlq

import (
	"context"
	"errors"
	"fmt"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/produce"
	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/clip"
	"dispatcher/internal/fault"
	"dispatcher/job"
)

// ReplayOptions says how letters are replayed. A zero field means its default.
type ReplayOptions struct {
	To    string  // the topic to write to; empty: the source topic of each letter's topic
	Rate  float64 // letters a second at most; 0: no limit
	Whole bool    // complete truncated letters from their original record, if it still exists
	Dry   bool    // only count
}

// leastRate is the lowest rate of a replay, in jobs a second.
const leastRate = 0.01

// CheckRate returns the fault of a rate, which is 0 for no bound.
func CheckRate(rate float64) error {
	if rate == 0 || rate >= leastRate {
		return nil
	}
	return fault.New("rate", rate, fmt.Sprintf("must be at least %g jobs a second; leave it out for no bound", leastRate))
}

// Replay writes the jobs of the letters that the filter picks to the source topics of the
// letters' topics, and settles each letter when Kafka has its job. The job has the key, value
// and headers of the first record and the headers about its origin, so it keeps its id. The
// header x-redrive counts replays. The headers about the failure are dropped. The partition is
// the one that Java clients choose for the key; letters of one partition keep their order.
//
// A truncated letter is replayed only if it can be completed; see [ReplayOptions]. Beside an
// error, Replay returns what was done until then. Jobs that count as unwritten may have been
// written.
func (l *Client) Replay(ctx context.Context, f Filter, o ReplayOptions) (Tally, error) {
	if o.To != "" && !topicname.Valid(o.To) {
		return Tally{}, fault.New("to", clip.Text(o.To, deadletter.MaxCodeBytes), topicname.Rule)
	}
	if err := CheckRate(o.Rate); err != nil {
		return Tally{}, err
	}
	c := &command{opts: &l.opts, filter: &f, settles: true, dry: o.Dry}
	if o.Rate > 0 {
		if !o.Dry {
			c.rate = o.Rate
		}
		c.batch = int(min(batchLetters, max(1, o.Rate)))
	}
	out, err := produce.NewBatchWriter(produce.BatchOptions{Connection: l.opts.Connection, Timeout: 2 * giveUpAfter})
	if err != nil {
		return Tally{}, err
	}
	defer func() { _ = out.Close() }() // always nil
	r := &replayer{o: o, out: out, tally: &c.tally, missing: map[string]bool{}, originals: newOriginals(&l.opts.Connection)}
	defer r.originals.close()
	return c.run(ctx, r.replay)
}

// replayer writes the jobs of letters.
type replayer struct {
	o         ReplayOptions
	out       *produce.BatchWriter
	tally     *Tally
	missing   map[string]bool // whether a topic does not exist
	originals *originals
}

// replay is the [handler] of a replay: it writes the jobs of letters of one topic, so all of them go to one topic.
func (r *replayer) replay(ctx context.Context, letters []deadletter.Letter) (done []deadletter.Letter, err error) {
	letters, err = r.intact(ctx, letters)
	if err != nil || len(letters) == 0 {
		return nil, err
	}
	to, err := r.target(ctx, letters)
	switch {
	case err != nil || to == "":
		return nil, err
	case r.o.Dry:
		return letters, nil
	}
	if done, err = r.writeTo(ctx, to, letters); err != nil {
		err = fmt.Errorf("write to topic %s: %w", to, err)
	}
	return done, err
}

// intact completes letters, and counts and leaves out those that stay truncated.
func (r *replayer) intact(ctx context.Context, letters []deadletter.Letter) ([]deadletter.Letter, error) {
	intact := make([]deadletter.Letter, 0, len(letters))
	for _, l := range letters {
		if err := r.restore(ctx, &l); err != nil {
			return nil, err
		}
		if l.Truncated {
			r.tally.Truncated++
			r.tally.note(truncatedNote(&l))
			continue
		}
		intact = append(intact, l)
	}
	return intact, nil
}

// restore completes a truncated letter, if the options ask for it and the record exists. A
// producer can write the origin, so a topic that can't be read is a fault of this letter alone.
func (r *replayer) restore(ctx context.Context, l *deadletter.Letter) error {
	if !l.Truncated || !r.o.Whole {
		return nil
	}
	full, ok, err := r.originals.restore(ctx, l)
	switch {
	case topicRefused(err):
		r.tally.note(fmt.Sprintf("%s can't be completed: %v", l.ID, err))
	case err != nil:
		return fmt.Errorf("complete letter %s: %w", l.ID, err)
	case ok:
		*l = full
	}
	return nil
}

// target returns the topic to write the jobs of letters to. If it does not exist, target counts
// the letters and returns "".
func (r *replayer) target(ctx context.Context, letters []deadletter.Letter) (string, error) {
	to := r.o.To
	if to == "" {
		to, _ = topicname.DeadOf(letters[0].ID.Topic) // not the origin's: a producer can write that
	}
	if !r.missing[to] {
		err := r.out.Check(ctx, to)
		if _, none := errors.AsType[*broker.MissingTopicError](err); err != nil && !none {
			return "", err
		}
		r.missing[to] = err != nil
	}
	if r.missing[to] {
		r.tally.NoTopic += int64(len(letters))
		r.tally.note(fmt.Sprintf("topic %s does not exist", to))
		return "", nil
	}
	return to, nil
}

func truncatedNote(l *deadletter.Letter) string {
	original := "a record that it does not name"
	if l.Origin.Topic != "" {
		original = "the record " + l.Origin.String()
	}
	return fmt.Sprintf("%s was truncated because of its size, and holds only a part of %s", l.ID, original)
}

// writeTo writes the jobs of letters to one topic, and returns the letters whose jobs Kafka
// has. It does not stop when ctx ends, since a canceled write may still happen. If several jobs
// fail, it returns an error that is not about a record's size; those are notes.
func (r *replayer) writeTo(ctx context.Context, to string, letters []deadletter.Letter) (done []deadletter.Letter, err error) {
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
		case broker.TooLarge(fault):
			r.tally.note(fmt.Sprintf("topic %s does not take a record as large as %s", to, letters[i].ID))
		case err == nil:
			err = broker.KafkaError(fault)
		}
		r.tally.Unwritten++
	}
	return done, err
}
