package produce

import (
	"context"
	"errors"
	"sync"
	"time"

	"dispatcher/consumer/internal/broker"

	"dispatcher/internal/wait"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// queueRecords is how many records of one topic Kafka's client has at once.
const queueRecords = 1000

// queue holds the records of one topic, those that Kafka's client has and
// those that wait for it. The client never has more of them than one batch may
// hold, or a single one that is larger. So memory is bounded, a topic that can't be
// written holds up no other, and where a broker refuses a record that went alone
// as too large, it is.
type queue struct {
	w *Writer

	mu         sync.Mutex
	waiting    []*Request // in the order of their numbers
	out        map[*Request]struct{}
	bytes      int      // of those that are out
	alone      *Request // is out, and nothing else has been since it is
	room       int      // bytes that may be out
	most       int      // records that may be out
	shrunk     bool     // a batch was too large: all are awaited before the next one
	sending    bool
	nextNumber uint64
	closed     bool
}

func newQueue(w *Writer) *queue {
	return &queue{w: w, out: make(map[*Request]struct{}), room: DefaultBatchBytes, most: queueRecords}
}

func (q *queue) setBatchBytes(most int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.room = max(most-1<<10, 1)
}

// put queues a record; false: it is too late for that.
func (q *queue) put(o *Request) bool {
	o.size = bytesInBatch(o.Record)
	o.Record.Context = context.WithValue(o.Context, requestKey{}, o)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	o.number = q.nextNumber
	q.nextNumber++
	q.waiting = append(q.waiting, o)
	q.wake()
	return true
}

// wake sends what may go. The lock is held.
func (q *queue) wake() {
	if !q.sending && q.maySend() {
		q.sending = true
		q.w.runs.Go(q.send)
	}
}

// maySend tells whether the next record may go. The lock is held.
func (q *queue) maySend() bool {
	switch {
	case q.closed || len(q.waiting) == 0:
		return false
	case len(q.out) == 0:
		return true
	}
	return !q.shrunk && len(q.out) < q.most && q.bytes+q.waiting[0].size <= q.room
}

// send gives records to Kafka's client. One goroutine at a time does, or they
// would not keep their order.
func (q *queue) send() {
	for o := q.take(); o != nil; o = q.take() {
		if err := o.Context.Err(); err != nil {
			q.answered(o, err)
			continue
		}
		q.w.client.TryProduce(o.Context, o.Record, func(_ *kgo.Record, err error) { q.answered(o, err) })
	}
}

// take takes the next record; nil: none may go.
func (q *queue) take() *Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.maySend() {
		q.sending = false
		return nil
	}
	o := q.waiting[0]
	q.waiting[0] = nil
	if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
	q.alone = nil
	if len(q.out) == 0 {
		q.alone, q.shrunk = o, false
	}
	q.out[o] = struct{}{}
	q.bytes += o.size
	o.sent = time.Now()
	return o
}

// step is what follows an answer.
type step int

const (
	stepDone   step = iota
	stepResend      // at once, in a smaller batch
	stepRetry       // after a while
)

// answered takes in what became of a record.
func (q *queue) answered(o *Request, err error) {
	q.mu.Lock()
	v := q.next(o, err)
	delete(q.out, o)
	q.bytes -= o.size
	switch v {
	case stepDone:
	case stepResend:
		q.waiting = insert(q.waiting, o)
	case stepRetry:
		o.tries++
		q.w.runs.Go(func() { q.retryLater(o, err) })
	}
	q.wake()
	q.mu.Unlock()
	if v != stepDone {
		return
	}
	if err != nil && o.Context.Err() != nil && !errors.Is(err, kgo.ErrClientClosed) {
		err = context.Cause(o.Context)
	}
	o.Done(err)
}

// next decides what follows. The lock is held.
func (q *queue) next(o *Request, err error) step {
	switch {
	case err == nil:
		q.most = min(q.most+1, queueRecords)
		return stepDone
	case q.closed, errors.Is(err, kgo.ErrClientClosed):
		return stepDone
	case broker.TooLarge(err) && q.alone == o:
		return stepDone
	case broker.TooLarge(err):
		if !q.shrunk {
			q.shrunk, q.most = true, max(len(q.out)/2, 1)
		}
		return stepResend
	case !q.w.Retry, o.Context.Err() != nil:
		return stepDone
	}
	return stepRetry
}

// retryLater puts a record back that Kafka has refused, after a while.
func (q *queue) retryLater(o *Request, err error) {
	if errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.UnknownTopicOrPartition) {
		q.w.forget(o.Record.Topic)
	}
	if !errors.Is(err, context.Canceled) { // that was another record of its batch
		q.w.report(o, broker.KafkaError(err))
	}
	ctx, stop := context.WithCancel(o.Context)
	defer stop()
	defer context.AfterFunc(q.w.ctx, stop)()
	wait.For(ctx, wait.Backoff(o.tries-1, 50*time.Millisecond, 2*time.Second))
	q.mu.Lock()
	why := o.Context.Err()
	if q.closed {
		why = kgo.ErrClientClosed
	}
	if why == nil {
		q.waiting = insert(q.waiting, o)
		q.wake()
	}
	q.mu.Unlock()
	if why != nil {
		o.Done(why)
	}
}

// late are the records that the client got before a time and still has.
func (q *queue) late(before time.Time) (late []*Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for o := range q.out {
		if o.sent.Before(before) {
			late = append(late, o)
		}
	}
	return late
}

// close gives up what waits.
func (q *queue) close() {
	q.mu.Lock()
	waiting := q.waiting
	q.waiting, q.closed = nil, true
	q.mu.Unlock()
	for _, o := range waiting {
		o.Done(kgo.ErrClientClosed)
	}
}

// bytesInBatch is what a record takes in a batch, about and before compression.
func bytesInBatch(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value) + 64
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + 16
	}
	return n
}
