package consumer

import (
	"context"
	"log/slog"
	"time"

	"dispatcher/consumer/deadletter"

	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/produce"

	"github.com/twmb/franz-go/pkg/kgo"

	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/clip"
	"dispatcher/internal/tally"
)

// letter is a delivery on its way to the dead letters or to a retry tier.
type letter struct {
	d    *Delivery
	f    deadletter.Failure // without a class: nothing has failed
	tier time.Duration      // 0: to the dead letters
	at   time.Time          // in a tier: when the job is due
}

func (l *letter) delayed() bool { return l.tier > 0 }

func (l *letter) topic() string {
	if l.delayed() {
		return topicname.Retry(l.d.part.of, l.tier)
	}
	if l.f.Class == deadletter.ClassUnknown && l.d.part.hub.parks {
		return topicname.Parked(l.d.part.of)
	}
	return topicname.Dead(l.d.part.of)
}

// deadLetters writes to the dead-letter topics and the retry topics. Its methods
// block and may be called from any goroutine.
type deadLetters struct {
	writer  *produce.Writer
	hub     *hub
	metrics *metrics
	log     *slog.Logger
	node    string
	group   string
	told    *tally.Tally[buried] // by class
}

func newDeadLetters(o *Options, w *produce.Writer, m *metrics, h *hub) *deadLetters {
	return &deadLetters{writer: w, hub: h, metrics: m, log: o.Logger, node: o.Node, group: o.Group, told: tally.New[buried](mostClasses)}
}

// bury writes letters of one assignment, and settles each once Kafka has it. It
// returns when all have their outcome, and at the latest when the assignment is
// over: no outcome counts then. Letters that their retry topic finds too large are
// not settled; it returns those.
func (q *deadLetters) bury(ctx context.Context, letters []letter) (unfit []letter) {
	outcomes := make(chan *letter, len(letters)) // room for all, since told must not block
	now := time.Now()
	for i := range letters {
		q.write(ctx, letters[i], q.record(&letters[i], now), outcomes)
	}
	over := letters[0].d.part.asg.life.Done()
	for range letters {
		select {
		case l := <-outcomes:
			if l != nil {
				unfit = append(unfit, *l)
			}
		case <-over:
			return nil
		}
	}
	return unfit
}

func (q *deadLetters) record(l *letter, now time.Time) *kgo.Record {
	n := &deadletter.Note{Topic: l.topic(), Group: q.group, Node: q.node, Failure: l.f}
	if l.delayed() {
		n.Due = l.at
	}
	return deadletter.Compose(&l.d.Job.Record, n, now)
}

// write brings a letter on its way. Of one that is settled it sends nil, of one
// that does not fit its retry topic the letter.
func (q *deadLetters) write(ctx context.Context, l letter, record *kgo.Record, outcomes chan<- *letter) {
	l.d.part.asg.write(q.writer, &produce.Request{Record: record, Context: ctx, Done: func(err error) {
		switch {
		case broker.TooLarge(err) && l.delayed():
			outcomes <- &l
			return
		case broker.TooLarge(err) && deadletter.Truncate(record):
			q.write(ctx, l, record, outcomes)
			return
		case err == nil:
			q.metrics.written(l)
			q.note(&l)
		}
		q.hub.settle(l.d, err == nil)
		outcomes <- nil
	}})
}

// buried is what the log shows of a dead letter.
type buried struct {
	class       deadletter.Class
	id, topic   string
	code, cause string
}

const (
	mostClasses = 16          // that the log tells apart
	tellEvery   = time.Second // how often sums that are due are looked for
)

// note tells the log of a dead letter: the first of a class at once, then sums.
func (q *deadLetters) note(l *letter) {
	if l.delayed() {
		return
	}
	j := &l.d.Job
	id := j.ID
	if id == "" {
		id = deadletter.RecordID{Topic: j.Topic, Partition: j.Partition, Offset: j.Offset}.String()
	}
	b := buried{class: l.f.Class, id: clip.Text(id, deadletter.MaxCodeBytes), topic: l.topic(), code: l.f.Code, cause: clip.Text(l.f.Message, deadletter.MaxMessageBytes)}
	if sum, due := q.told.Note(time.Now(), string(b.class), b); due {
		q.tell(sum)
	}
}

// keepTelling tells sums whose letters have stopped coming, until end is closed.
func (q *deadLetters) keepTelling(end <-chan struct{}) {
	look := time.NewTicker(tellEvery)
	defer look.Stop()
	for {
		select {
		case <-end:
			return
		case now := <-look.C:
			for _, sum := range q.told.Due(now) {
				q.tell(sum)
			}
		}
	}
}

func (q *deadLetters) tell(sum tally.Sum[buried]) {
	b := sum.Last
	attrs := []any{"class", b.class, "jobs", sum.Count, "topic", b.topic, "last_id", b.id}
	if sum.Over > 0 {
		attrs = append(attrs, "in", sum.Over.Round(time.Second))
	}
	if b.code != "" {
		attrs = append(attrs, "code", b.code)
	}
	q.log.Warn("jobs were dead-lettered", append(attrs, "error", b.cause)...)
}
