package consumer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// queueRecords is how many records of one topic Kafka's client has at once.
const queueRecords = 1000

// writeQueue holds the records of one topic, those that Kafka's client has and
// those that wait for it. The client never has more of them than one batch may
// hold, or a single one that is larger. So memory is bounded, a topic that can't be
// written holds up no other, and where a broker refuses a record that went alone
// as too large, it is.
type writeQueue struct {
	w *writer

	mu      sync.Mutex
	waiting []*outgoing // in the order of their numbers
	out     map[*outgoing]struct{}
	bytes   int       // of those that are out
	alone   *outgoing // is out, and nothing else has been since it is
	room    int       // bytes that may be out
	most    int       // records that may be out
	shrunk  bool      // a batch was too large: all are awaited before the next one
	sending bool
	next    uint64
	closed  bool
}

func newWriteQueue(w *writer) *writeQueue {
	return &writeQueue{w: w, out: make(map[*outgoing]struct{}), room: letterBytes, most: queueRecords}
}

func (q *writeQueue) fit(most int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.room = max(most-1<<10, 1)
}

// put queues a record; false: it is too late for that.
func (q *writeQueue) put(o *outgoing) bool {
	o.size = outgoingBytes(o.record)
	o.record.Context = context.WithValue(o.ctx, outgoingKey{}, o)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	o.number = q.next
	q.next++
	q.waiting = append(q.waiting, o)
	q.wake()
	return true
}

// wake sends what may go. The lock is held.
func (q *writeQueue) wake() {
	if !q.sending && q.may() {
		q.sending = true
		q.w.runs.Go(q.send)
	}
}

// may tells whether the next record may go. The lock is held.
func (q *writeQueue) may() bool {
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
func (q *writeQueue) send() {
	for o := q.take(); o != nil; o = q.take() {
		if err := o.ctx.Err(); err != nil {
			q.answered(o, err)
			continue
		}
		q.w.client.TryProduce(o.ctx, o.record, func(_ *kgo.Record, err error) { q.answered(o, err) })
	}
}

// take takes the next record; nil: none may go.
func (q *writeQueue) take() *outgoing {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.may() {
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

// verdict is what follows an answer.
type verdict int

const (
	verdictFinal verdict = iota
	verdictAgain         // at once, in a smaller batch
	verdictRest          // after a while
)

// answered takes in what became of a record.
func (q *writeQueue) answered(o *outgoing, err error) {
	q.mu.Lock()
	v := q.judge(o, err)
	delete(q.out, o)
	q.bytes -= o.size
	switch v {
	case verdictFinal:
	case verdictAgain:
		q.waiting = insert(q.waiting, o)
	case verdictRest:
		o.tries++
		q.w.runs.Go(func() { q.rest(o, err) })
	}
	q.wake()
	q.mu.Unlock()
	if v != verdictFinal {
		return
	}
	if err != nil && o.ctx.Err() != nil && !errors.Is(err, kgo.ErrClientClosed) {
		err = context.Cause(o.ctx)
	}
	o.told(err)
}

// judge decides what follows. The lock is held.
func (q *writeQueue) judge(o *outgoing, err error) verdict {
	switch {
	case err == nil:
		q.most = min(q.most+1, queueRecords)
		return verdictFinal
	case q.closed, errors.Is(err, kgo.ErrClientClosed):
		return verdictFinal
	case tooLarge(err) && q.alone == o:
		return verdictFinal
	case tooLarge(err):
		if !q.shrunk {
			q.shrunk, q.most = true, max(len(q.out)/2, 1)
		}
		return verdictAgain
	case !q.w.retry, o.ctx.Err() != nil:
		return verdictFinal
	}
	return verdictRest
}

// rest puts a record back that Kafka has refused, after a while.
func (q *writeQueue) rest(o *outgoing, err error) {
	if errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.UnknownTopicOrPartition) {
		q.w.forget(o.record.Topic)
	}
	if !errors.Is(err, context.Canceled) { // that was another record of its batch
		q.w.report(o, brokerError(err))
	}
	wait, stop := context.WithCancel(o.ctx)
	defer stop()
	defer context.AfterFunc(q.w.ctx, stop)()
	pause(wait, backoff(o.tries-1, 50*time.Millisecond, 2*time.Second))
	q.mu.Lock()
	why := o.ctx.Err()
	if q.closed {
		why = kgo.ErrClientClosed
	}
	if why == nil {
		q.waiting = insert(q.waiting, o)
		q.wake()
	}
	q.mu.Unlock()
	if why != nil {
		o.told(why)
	}
}

// late are the records that the client got before a time and still has.
func (q *writeQueue) late(before time.Time) (late []*outgoing) {
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
func (q *writeQueue) close() {
	q.mu.Lock()
	waiting := q.waiting
	q.waiting, q.closed = nil, true
	q.mu.Unlock()
	for _, o := range waiting {
		o.told(kgo.ErrClientClosed)
	}
}

// outgoingBytes is what a record takes in a batch, about and before compression.
func outgoingBytes(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value) + 64
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + 16
	}
	return n
}
