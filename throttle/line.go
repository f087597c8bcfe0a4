package throttle

import (
	"context"
	"slices"
	"sync"
	"time"
)

// line is where callers and slots meet: callers wait in order, those that ask
// again before the others; slots are held in order until somebody takes them.
// Nothing waits while the mutex is held.
type line struct {
	mu    sync.Mutex
	again waiters
	next  waiters
	held  []Slot // booked and not taken, earliest first; refusals among them
	spare []Slot // the array that held slices of, reused when it is empty
	late  int64  // slots whose time was over before anybody took them

	counter latenessCounter // of slots that were used, and of those that were late
}

// missed counts a slot that was late, at now, after it was taken.
func (l *line) missed(s Slot, now time.Time) {
	l.counter.count(s, now)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late++
}

// waiters is a FIFO of channels, each of which gets one slot.
type waiters []chan Slot

// take returns the earliest slot that can still be used, or a place in the
// line: a channel that gets one slot.
func (l *line) take(now time.Time, again bool) (Slot, chan Slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Where others ask again, what is held is refusals, and these are for whoever
	// is next.
	if again || len(l.next) == 0 {
		if s, ok := l.pop(now, again); ok {
			return s, nil
		}
	}
	place := make(chan Slot, 1)
	if again {
		l.again = append(l.again, place)
	} else {
		l.next = append(l.next, place)
	}
	return Slot{}, place
}

// pop removes the earliest slot that is not late at now. Refusals stand between
// the slots, each for one caller; those who ask again are passed over by them.
func (l *line) pop(now time.Time, again bool) (Slot, bool) {
	l.dropLate(now)
	i := 0
	for again && i < len(l.held) && (l.held[i].full || l.held[i].LateAt(now)) {
		i++
	}
	if i == len(l.held) {
		return Slot{}, false
	}
	s := l.held[i]
	if i == 0 {
		l.held = l.held[1:]
	} else {
		l.held = append(l.held[:i], l.held[i+1:]...)
	}
	return s, true
}

// dropLate removes the slots at the head that nobody can use any more, and the
// refusals of callers that have gone.
func (l *line) dropLate(now time.Time) {
	for len(l.held) > 0 && l.held[0].LateAt(now) {
		if !l.held[0].full {
			l.late++
			l.counter.count(l.held[0], now)
		}
		l.held = l.held[1:]
	}
}

// leave gives a place up. If a slot had come already, it goes to the next in
// line.
func (l *line) leave(place chan Slot, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.again = l.again.without(place)
	l.next = l.next.without(place)
	select {
	case s := <-place:
		l.hold(s, now)
	default:
	}
}

// giveBack takes in a slot that somebody had taken.
func (l *line) giveBack(s Slot, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold(s, now)
}

// hold puts a slot among those that are held, and serves who waits.
func (l *line) hold(s Slot, now time.Time) {
	at := 0
	for !s.full && at < len(l.held) && (l.held[at].full || l.held[at].NotBefore.Before(s.NotBefore)) {
		at++
	}
	l.held = slices.Insert(l.held, at, s)
	l.serve(now)
}

// add takes booked slots in and serves those who wait.
func (l *line) add(slots []Slot, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) == 0 {
		l.held = l.spare[:0]
	}
	l.held = append(l.held, slots...)
	if cap(l.held) > cap(l.spare) {
		l.spare = l.held[:0]
	}
	l.serve(now)
}

// drop gives up all held slots and returns how many there were.
func (l *line) drop() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := int64(len(l.held))
	l.held = l.held[:0]
	return n
}

// serve hands held slots to those who wait, while there are both.
func (l *line) serve(now time.Time) {
	l.serveAll(&l.again, now, true)
	l.serveAll(&l.next, now, false) // where one of the former is left, there are only refusals
}

func (l *line) serveAll(all *waiters, now time.Time, again bool) {
	for len(*all) > 0 {
		s, ok := l.pop(now, again)
		if !ok {
			return
		}
		(*all)[0] <- s // has room for one
		*all = (*all)[1:]
	}
}

// lineState is what the booking goroutine decides by.
type lineState struct {
	waiting int       // callers without a slot, those that ask again left out
	again   int       // these: a refusal is none for them
	held    int       // slots without a caller
	last    time.Time // NotBefore of the last slot held; zero: none
	late    int64     // since the last look
}

// refusalLasts is for how long after the slots before it a refusal waits for its
// caller, who may have gone: one that comes later is not to get it. Refusals
// before it don't count, or a line of them would never end.
const refusalLasts = 100 * time.Millisecond

// refuse tells so many callers that there was no room, less those that ask again,
// and returns how many are left.
func (l *line) refuse(count int64, now time.Time) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if count -= int64(len(l.again)); count <= 0 {
		return 0
	}
	over := now
	for _, s := range l.held {
		if !s.full {
			over = later(over, s.NotAfter)
		}
	}
	l.held = append(l.held, slices.Repeat([]Slot{{full: true, NotAfter: over.Add(refusalLasts)}}, int(count))...)
	l.serve(now)
	return count
}

func (l *line) state(now time.Time) lineState {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropLate(now)
	s := lineState{waiting: len(l.next), again: len(l.again), held: len(l.held), late: l.late}
	l.late = 0 // the reader counts on
	if s.held > 0 {
		s.last = l.held[s.held-1].NotBefore
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

// await waits for the slot of a place in the line.
func (l *line) await(ctx context.Context, place chan Slot) (Slot, error) {
	select {
	case s := <-place:
		return s.orFull()
	case <-ctx.Done():
		l.leave(place, time.Now())
		return Slot{}, context.Cause(ctx)
	}
}
