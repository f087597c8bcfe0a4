package consumer

import (
	"context"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	maxMessageBytes = 1 << 10
	maxCodeBytes    = 256
	// letterBytes is a little below what a broker takes at once by default. A
	// larger letter is tried as it is before it is cut to this.
	letterBytes = 1<<20 - 16<<10
)

// letter is a delivery on its way to the dead letters or to a retry tier.
type letter struct {
	d    *Delivery
	f    Failure       // without a class: nothing has failed
	tier time.Duration // 0: to the dead letters
	at   time.Time     // in a tier: when the job is due
}

func (l *letter) delayed() bool { return l.tier > 0 }

func (l *letter) topic() string {
	if l.delayed() {
		return tierTopic(l.d.part.of, l.tier)
	}
	if l.f.Class == ClassUnknown && l.d.part.hub.parks {
		return parkedTopic(l.d.part.of)
	}
	return deadTopic(l.d.part.of)
}

// deadLetters writes to the dead-letter topics and the retry topics. Its methods
// block and may be called from any goroutine.
type deadLetters struct {
	writer  *writer
	hub     *hub
	metrics *metrics
	log     *slog.Logger
	node    string
	group   string
}

func newDeadLetters(o *Options, w *writer, m *metrics, h *hub) *deadLetters {
	return &deadLetters{writer: w, hub: h, metrics: m, log: o.Logger, node: o.Node, group: o.Group}
}

// bury writes letters of one assignment, and settles each once Kafka has it. It
// returns when all have their outcome, and at the latest when the assignment is
// over: no outcome counts then. Letters that their retry topic finds too large are
// not settled; it returns those.
func (q *deadLetters) bury(ctx context.Context, letters []letter) (unfit []letter) {
	outcomes := make(chan *letter, len(letters)) // room for all, since told must not block
	now := time.Now()
	for i := range letters {
		q.write(ctx, letters[i], q.message(letters[i], now), outcomes)
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

// write brings a letter on its way. Of one that is settled it sends nil, of one
// that does not fit its retry topic the letter.
func (q *deadLetters) write(ctx context.Context, l letter, record *kgo.Record, outcomes chan<- *letter) {
	l.d.part.asg.write(q.writer, &outgoing{record: record, ctx: ctx, told: func(err error) {
		switch {
		case tooLarge(err) && l.delayed():
			outcomes <- &l
			return
		case tooLarge(err) && cut(record):
			q.write(ctx, l, record, outcomes)
			return
		case err == nil:
			q.metrics.written(l)
		}
		q.hub.settle(l.d, err == nil)
		outcomes <- nil
	}})
}
