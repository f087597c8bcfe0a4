// Package tally bounds how often a log repeats an event. Of each kind the first event
// is logged at once, then a sum after five seconds, and from then on one sum a minute.
// A kind without an event for a minute begins again.
//
// It logs nothing itself, starts no goroutine and reads no clock: the caller passes the
// time in and writes the lines. Its methods may be called from any goroutine.
package tally

import (
	"sync"
	"time"
)

// When sums are due after the line before.
const (
	Soon  = 5 * time.Second // after the first line of a kind
	Every = time.Minute     // after each later one
)

// Tally counts events by kind. A line shows the last event as a T.
type Tally[T any] struct {
	most int

	mu    sync.Mutex
	kinds map[string]*events[T]
}

type events[T any] struct {
	count  int // since the last line
	last   T
	lineAt time.Time
	lines  int
}

// Sum is the content of a line.
type Sum[T any] struct {
	Count int           // events since the line before
	Over  time.Duration // from the line before until now; 0: this is the first line
	Last  T             // of the last event
}

// PerSecond is how many events a second there were; 0 in the first line.
func (s Sum[T]) PerSecond() float64 {
	if s.Over <= 0 {
		return 0
	}
	return float64(s.Count) / s.Over.Seconds()
}

// New counts at most so many kinds. Further kinds are counted as one.
func New[T any](kinds int) *Tally[T] {
	return &Tally[T]{most: kinds, kinds: map[string]*events[T]{}}
}

// Note counts an event. It returns true if a line is due now.
func (t *Tally[T]) Note(now time.Time, kind string, event T) (Sum[T], bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.of(kind)
	e.count++
	e.last = event
	if now.Before(e.due()) {
		return Sum[T]{}, false
	}
	return e.sum(now), true
}

// Due returns the sums that are due without a further event, and forgets kinds without
// events. The caller calls it every few seconds.
func (t *Tally[T]) Due(now time.Time) []Sum[T] {
	t.mu.Lock()
	defer t.mu.Unlock()
	var sums []Sum[T]
	for kind, e := range t.kinds {
		switch {
		case e.count > 0 && !now.Before(e.due()):
			sums = append(sums, e.sum(now))
		case e.count == 0 && now.Sub(e.lineAt) >= Every:
			delete(t.kinds, kind)
		}
	}
	return sums
}

// rest counts the kinds beyond the bound.
const rest = ""

func (t *Tally[T]) of(kind string) *events[T] {
	if t.kinds[kind] == nil && len(t.kinds) >= t.most {
		kind = rest
	}
	if t.kinds[kind] == nil {
		t.kinds[kind] = &events[T]{}
	}
	return t.kinds[kind]
}

func (e *events[T]) due() time.Time {
	switch e.lines {
	case 0:
		return time.Time{}
	case 1:
		return e.lineAt.Add(Soon)
	}
	return e.lineAt.Add(Every)
}

func (e *events[T]) sum(now time.Time) Sum[T] {
	s := Sum[T]{Count: e.count, Last: e.last}
	if e.lines > 0 {
		s.Over = now.Sub(e.lineAt)
	}
	e.count, e.lines, e.lineAt = 0, e.lines+1, now
	return s
}
