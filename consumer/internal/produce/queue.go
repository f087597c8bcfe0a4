package produce

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"dispatcher/consumer/internal/broker"
	"dispatcher/internal/wait"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// maxInFlight is how many records of one topic kgo has at once, at most.
const maxInFlight = 1000

// queue holds the records of one topic: those that kgo has (in flight) and those that wait.
// The records in flight fit into one batch, or are a single larger record. This bounds the
// memory and keeps topics independent. It also means that a record was sent alone when the
// broker refuses it as too large with nothing else in flight.
type queue struct {
	w *Writer

	mu         sync.Mutex
	waiting    []*Request // in the order of their numbers
	inFlight   map[*Request]struct{}
	bytes      int      // of the records in flight
	alone      *Request // in flight, and nothing else was in flight since it was sent
	maxBytes   int      // that may be in flight
	maxRecords int      // that may be in flight
	shrunk     bool     // a batch was too large: the next one waits until none is in flight
	sending    bool     // a goroutine runs send
	nextNumber uint64
	closed     bool
}

func newQueue(w *Writer) *queue {
	return &queue{w: w, inFlight: make(map[*Request]struct{}), maxBytes: DefaultBatchBytes, maxRecords: maxInFlight}
}

func (q *queue) setBatchBytes(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.maxBytes = max(n-1<<10, 1)
}

// put queues a record. It returns false if the queue is closed.
func (q *queue) put(r *Request) bool {
	r.bytes = bytesInBatch(r.Record)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	r.number = q.nextNumber
	q.nextNumber++
	q.waiting = append(q.waiting, r)
	q.wake()
	return true
}

// wake starts send if a record may be sent. The caller holds the lock.
func (q *queue) wake() {
	if !q.sending && q.maySend() {
		q.sending = true
		q.w.goroutines.Go(q.send)
	}
}

// maySend tells whether the next record may be sent. The caller holds the lock.
func (q *queue) maySend() bool {
	switch {
	case q.closed || len(q.waiting) == 0:
		return false
	case len(q.inFlight) == 0:
		return true
	}
	return !q.shrunk && len(q.inFlight) < q.maxRecords && q.bytes+q.waiting[0].bytes <= q.maxBytes
}

// send passes records to kgo. Only one goroutine runs it at a time: two would not keep the
// records in order.
func (q *queue) send() {
	for r := q.take(); r != nil; r = q.take() {
		if err := r.Context.Err(); err != nil {
			q.answered(r, err)
			continue
		}
		q.produce(r)
	}
}

// produce passes a record to kgo.
func (q *queue) produce(r *Request) {
	r.Record.Context = q.w.lost.attempt(r)
	q.w.client.TryProduce(r.Record.Context, r.Record, func(_ *kgo.Record, err error) { q.answered(r, err) })
}

// take moves the next record into flight. It returns nil if none may be sent.
func (q *queue) take() *Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.maySend() {
		q.sending = false
		return nil
	}
	r := q.waiting[0]
	q.waiting[0] = nil
	if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
	q.alone = nil
	if len(q.inFlight) == 0 {
		q.alone, q.shrunk = r, false
	}
	q.inFlight[r] = struct{}{}
	q.bytes += r.bytes
	r.sent = time.Now()
	return r
}

// step is what the queue does after an answer.
type step int

const (
	stepDone   step = iota
	stepResend      // at once, in a smaller batch
	stepRetry       // after a backoff
)

// answered handles the result of a record.
func (q *queue) answered(r *Request, err error) {
	q.mu.Lock()
	next := q.next(r, err)
	delete(q.inFlight, r)
	q.bytes -= r.bytes
	switch next {
	case stepDone:
	case stepResend:
		q.insert(r)
	case stepRetry:
		r.attempts++
		q.w.goroutines.Go(func() { q.retryLater(r, err) })
	}
	q.wake()
	q.mu.Unlock()
	if next != stepDone {
		return
	}
	if err != nil && r.Context.Err() != nil && !errors.Is(err, kgo.ErrClientClosed) {
		err = context.Cause(r.Context)
	}
	r.Done(err)
}

// next decides the step after an answer. The caller holds the lock.
func (q *queue) next(r *Request, err error) step {
	switch {
	case err == nil:
		q.maxRecords = min(q.maxRecords+1, maxInFlight)
		return stepDone
	case q.closed, errors.Is(err, kgo.ErrClientClosed):
		return stepDone
	case broker.TooLarge(err) && q.alone != r:
		if !q.shrunk {
			q.shrunk, q.maxRecords = true, max(len(q.inFlight)/2, 1)
		}
		return stepResend
	case broker.TooLarge(err) && !r.Smallest, !q.w.opts.Retry, r.Context.Err() != nil:
		return stepDone
	}
	return stepRetry
}

// retryLater queues a record again after a backoff.
func (q *queue) retryLater(r *Request, err error) {
	if errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.UnknownTopicOrPartition) {
		q.w.forget(r.Record.Topic)
	}
	// kgo fails the rest of a batch with Canceled when the context of one record ends.
	if !errors.Is(err, context.Canceled) {
		q.w.opts.Report(r, broker.KafkaError(err))
	}
	ctx, stop := context.WithCancel(r.Context)
	defer stop()
	defer context.AfterFunc(q.w.ctx, stop)()
	wait.For(ctx, wait.Backoff(r.attempts-1, 50*time.Millisecond, 2*time.Second))
	q.mu.Lock()
	end := r.Context.Err()
	if q.closed {
		end = kgo.ErrClientClosed
	}
	if end == nil {
		q.insert(r)
		q.wake()
	}
	q.mu.Unlock()
	if end != nil {
		r.Done(end)
	}
}

// insert puts a record back among those that wait, in order. The caller holds the lock.
func (q *queue) insert(r *Request) {
	at, _ := slices.BinarySearchFunc(q.waiting, r, func(a, b *Request) int { return cmp.Compare(a.number, b.number) })
	q.waiting = slices.Insert(q.waiting, at, r)
}

// addLate adds the records that kgo got before a time and still has, with that time.
func (q *queue) addLate(late map[*Request]time.Time, before time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for r := range q.inFlight {
		if r.sent.Before(before) {
			late[r] = r.sent
		}
	}
}

// close fails the records that wait.
func (q *queue) close() {
	q.mu.Lock()
	waiting := q.waiting
	q.waiting, q.closed = nil, true
	q.mu.Unlock()
	for _, r := range waiting {
		r.Done(kgo.ErrClientClosed)
	}
}

// bytesInBatch estimates the size of a record in a batch, before compression.
func bytesInBatch(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value) + 64
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + 16
	}
	return n
}
