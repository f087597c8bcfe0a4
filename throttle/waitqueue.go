package throttle

import (
	"context"
	"slices"
	"sync"
	"time"

	"dispatcher/throttle/lateness"
)

// waitQueue is where callers and slots meet. Callers wait in order, those of Again
// before the others. Slots are held in order until a caller takes them. Nothing
// waits while the mutex is held.
type waitQueue struct {
	mu    sync.Mutex
	again waiters
	next  waiters
	held  []Slot // reserved and not taken, earliest first; refusals among them
	spare []Slot // the array that held slices of, reused when it is empty
	late  int64  // slots whose time was over before a caller took them

	counter lateness.Counter // of slots that were used, and of those that were late
}

// missed counts a slot that was late, at now, after it was taken.
func (q *waitQueue) missed(s Slot, now time.Time) {
	q.counter.Count(s.lateBy(now))
	q.mu.Lock()
	defer q.mu.Unlock()
	q.late++
}

// waiters is a FIFO of channels, each of which gets one slot.
type waiters []chan Slot

// take returns the earliest slot that can still be used, or a place in the
// queue: a channel that gets one slot.
func (q *waitQueue) take(now time.Time, again bool) (Slot, chan Slot) {
	q.mu.Lock()
	defer q.mu.Unlock()
	// While callers of Again wait, all that is held are refusals, which are for the
	// next caller of Next.
	if again || len(q.next) == 0 {
		if s, ok := q.pop(now, again); ok {
			return s, nil
		}
	}
	place := make(chan Slot, 1)
	if again {
		q.again = append(q.again, place)
	} else {
		q.next = append(q.next, place)
	}
	return Slot{}, place
}

// pop removes the earliest slot that is not late at now. Refusals stand between
// the slots, each for one caller of Next; callers of Again skip them.
func (q *waitQueue) pop(now time.Time, again bool) (Slot, bool) {
	q.dropLate(now)
	i := 0
	for again && i < len(q.held) && (q.held[i].full || q.held[i].LateAt(now)) {
		i++
	}
	if i == len(q.held) {
		return Slot{}, false
	}
	s := q.held[i]
	if i == 0 {
		q.held = q.held[1:]
	} else {
		q.held = append(q.held[:i], q.held[i+1:]...)
	}
	return s, true
}

// dropLate removes the slots at the head that nobody can use any more, and the
// refusals of callers that have gone.
func (q *waitQueue) dropLate(now time.Time) {
	for len(q.held) > 0 && q.held[0].LateAt(now) {
		if !q.held[0].full {
			q.late++
			q.counter.Count(q.held[0].lateBy(now))
		}
		q.held = q.held[1:]
	}
}

// leave gives a place up. If a slot had come already, it goes to the next
// caller.
func (q *waitQueue) leave(place chan Slot, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.again = q.again.without(place)
	q.next = q.next.without(place)
	select {
	case s := <-place:
		q.hold(s, now)
	default:
	}
}

// giveBack holds a slot that a caller had taken.
func (q *waitQueue) giveBack(s Slot, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hold(s, now)
}

// hold puts a slot among those that are held, and serves the callers that wait.
func (q *waitQueue) hold(s Slot, now time.Time) {
	at := 0
	for !s.full && at < len(q.held) && (q.held[at].full || q.held[at].NotBefore.Before(s.NotBefore)) {
		at++
	}
	q.held = slices.Insert(q.held, at, s)
	q.serve(now)
}

// add holds reserved slots and serves the callers that wait.
func (q *waitQueue) add(slots []Slot, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.held) == 0 {
		q.held = q.spare[:0]
	}
	q.held = append(q.held, slots...)
	if cap(q.held) > cap(q.spare) {
		q.spare = q.held[:0]
	}
	q.serve(now)
}

// drop gives up all held slots and returns how many there were.
func (q *waitQueue) drop() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := int64(len(q.held))
	q.held = q.held[:0]
	return n
}

// serve hands held slots to callers that wait, while there are both.
func (q *waitQueue) serve(now time.Time) {
	q.serveAll(&q.again, now, true)
	q.serveAll(&q.next, now, false) // where a caller of Again is left, there are only refusals
}

func (q *waitQueue) serveAll(all *waiters, now time.Time, again bool) {
	for len(*all) > 0 {
		s, ok := q.pop(now, again)
		if !ok {
			return
		}
		(*all)[0] <- s // has room for one
		*all = (*all)[1:]
	}
}

// queueState is the state by which the reserving goroutine decides.
type queueState struct {
	waiting int       // callers of Next without a slot
	again   int       // callers of Again without a slot
	held    int       // slots without a caller
	last    time.Time // NotBefore of the last slot held; zero: none
	late    int64     // since the last snapshot
}

// refusalLasts is for how long after the slots before it a refusal waits for its
// caller, who may have gone: one that comes later is not to get it. Refusals
// before it don't count, or a row of them would never end.
const refusalLasts = 100 * time.Millisecond

// refuse tells count callers that there was no room, less the callers of Again,
// and returns how many are left.
func (q *waitQueue) refuse(count int64, now time.Time) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if count -= int64(len(q.again)); count <= 0 {
		return 0
	}
	over := now
	for _, s := range q.held {
		if !s.full {
			over = later(over, s.NotAfter)
		}
	}
	q.held = append(q.held, slices.Repeat([]Slot{{full: true, NotAfter: over.Add(refusalLasts)}}, int(count))...)
	q.serve(now)
	return count
}

func (q *waitQueue) state(now time.Time) queueState {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropLate(now)
	s := queueState{waiting: len(q.next), again: len(q.again), held: len(q.held), late: q.late}
	q.late = 0 // the reader adds it up
	if s.held > 0 {
		s.last = q.held[s.held-1].NotBefore
	}
	return s
}

func (w waiters) without(place chan Slot) waiters {
	for i, p := range w {
		if p == place {
			return append(w[:i], w[i+1:]...)
		}
	}
	return w
}

// await waits for the slot of a place in the queue.
func (q *waitQueue) await(ctx context.Context, place chan Slot) (Slot, error) {
	select {
	case s := <-place:
		return s.orFull()
	case <-ctx.Done():
		q.leave(place, time.Now())
		return Slot{}, context.Cause(ctx)
	}
}
