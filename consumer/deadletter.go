package consumer

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	maxMessageBytes = 1 << 10
	maxCodeBytes    = 256
	// letterBytes is a little below what a broker takes at once by default. A
	// larger letter is tried as it is before it is cut to this.
	letterBytes = 1<<20 - 16<<10
	deadLinger  = 5 * time.Millisecond
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

// deadLetters writes to the dead-letter topics and the retry tiers. Its methods block and may be
// called from any goroutine; calls at the same time share batches.
type deadLetters struct {
	batched *kafka.Writer // many small letters at once
	single  *kafka.Writer // one letter a batch, for those that are too large
	hub     *hub
	metrics *metrics
	log     *slog.Logger
	node    string
	group   string
	attempt time.Duration // for one write
}

func newDeadLetters(o *Options, cl *client, m *metrics, h *hub) *deadLetters {
	q := &deadLetters{hub: h, metrics: m, log: o.Logger, node: o.Node, group: o.Group}
	// Half the drain, so that a write that has begun when it does ends within it.
	q.attempt = o.Drain / 2
	q.batched = q.newWriter(cl, 100, letterBytes)
	q.single = q.newWriter(cl, 1, math.MaxInt32)
	return q
}

func (q *deadLetters) newWriter(cl *client, size int, bytes int64) *kafka.Writer {
	return &kafka.Writer{
		Addr: cl.Addr, Transport: cl.transport, Balancer: kafka.Murmur2Balancer{},
		RequiredAcks: kafka.RequireAll, BatchTimeout: deadLinger, MaxAttempts: 1,
		BatchSize: size, BatchBytes: bytes, ReadTimeout: q.attempt, WriteTimeout: q.attempt,
	}
}

// close ends the writers. Nothing is pending: every write was awaited.
func (q *deadLetters) close() {
	_ = q.batched.Close()
	_ = q.single.Close()
}

// bury writes letters of one assignment until Kafka has all of them or ctx
// ends, and settles each accordingly.
func (q *deadLetters) bury(ctx context.Context, letters []letter) {
	a := letters[0].d.part.asg
	now := time.Now()
	todo := make([]kafka.Message, len(letters))
	for i, l := range letters {
		todo[i] = q.message(l, now)
	}
	for n := 0; len(todo) > 0; n++ {
		left, err := q.write(todo, a.drainLeft(q.attempt)) //nolint:contextcheck // a write that was cancelled may still happen
		q.settleWritten(todo, left)
		todo = left
		if len(todo) == 0 || !q.again(ctx, n, err, len(todo)) {
			break
		}
	}
	for i := range todo {
		if l, ok := todo[i].WriterData.(letter); ok {
			q.hub.settle(l.d, false)
		}
	}
}

// again waits before the next try; false: the job was taken away.
func (q *deadLetters) again(ctx context.Context, n int, err error, count int) bool {
	if ctx.Err() != nil || errors.Is(err, errCut) {
		return ctx.Err() == nil
	}
	q.metrics.deadErrors.Inc()
	q.log.Error("dead letters or delayed jobs could not be written, trying again", "count", count, "error", err)
	return pause(ctx, backoff(n, 50*time.Millisecond, 2*time.Second))
}

// settleWritten settles those of todo that are not left.
func (q *deadLetters) settleWritten(todo, left []kafka.Message) {
	open := make(map[*Delivery]bool, len(left))
	for i := range left {
		if l, ok := left[i].WriterData.(letter); ok {
			open[l.d] = true
		}
	}
	for i := range todo {
		if l, ok := todo[i].WriterData.(letter); ok && !open[l.d] {
			q.metrics.written(l)
			q.hub.settle(l.d, true)
		}
	}
}

// errCut: a letter was too large; it is another one now and goes again at once.
var errCut = errors.New("the letter was cut")

// write tries once, for as long as it is given. It returns what is not known to
// be written, ready for the next try, and why.
func (q *deadLetters) write(msgs []kafka.Message, timeout time.Duration) ([]kafka.Message, error) {
	// Not the job's context: a write that was cancelled may still happen.
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	err := tryWrite(ctx, q.batched, msgs)
	if err == nil {
		return nil, nil
	}
	left := unwritten(msgs, err)
	if !tooLarge(err) {
		return left, firstError(err)
	}
	return q.writeSingly(ctx, left)
}

// tryWrite begins nothing when the time is up: the client would write all the
// same, and only not wait for it.
func tryWrite(ctx context.Context, w *kafka.Writer, msgs []kafka.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.WriteMessages(ctx, msgs...)
}

// writeSingly sends each letter in a batch of its own, so that a broker's "too
// large" is about this letter and not about its company. That one is cut. Any
// other error is about the topic or the way to it, and ends the round.
func (q *deadLetters) writeSingly(ctx context.Context, msgs []kafka.Message) (left []kafka.Message, why error) {
	for i := range msgs {
		err := firstError(tryWrite(ctx, q.single, msgs[i:i+1]))
		switch {
		case err == nil:
			continue
		case !tooLarge(err):
			return append(left, msgs[i:]...), err
		case !q.redirect(&msgs[i]) && !cut(&msgs[i]):
			why = err
		case why == nil:
			why = errCut
		}
		left = append(left, msgs[i])
	}
	return left, why
}

func unwritten(msgs []kafka.Message, err error) []kafka.Message {
	each, ok := errors.AsType[kafka.WriteErrors](err)
	if !ok || len(each) != len(msgs) {
		return msgs
	}
	var left []kafka.Message
	for i := range msgs {
		if each[i] != nil {
			left = append(left, msgs[i])
		}
	}
	return left
}

// firstError avoids the text of the client's list of errors, which counts them.
func firstError(err error) error {
	if each, ok := errors.AsType[kafka.WriteErrors](err); ok {
		for _, e := range each {
			if e != nil {
				return e
			}
		}
	}
	return err
}

func tooLarge(err error) bool {
	if _, local := errors.AsType[kafka.MessageTooLargeError](err); local {
		return true
	}
	e := firstError(err)
	return errors.Is(e, kafka.MessageSizeTooLarge) || errors.Is(e, kafka.RecordListTooLarge)
}

// redirect makes a dead letter of a job that is too large for its tier: cut, it
// would be another job.
func (q *deadLetters) redirect(m *kafka.Message) bool {
	l, ok := m.WriterData.(letter)
	if !ok || !l.delayed() {
		return false
	}
	l.f.Class, l.f.Message = ClassUnsupported, "with its headers the job is larger than "+l.topic()+" takes"
	l.tier = 0
	*m = q.message(l, time.Now())
	return true
}
