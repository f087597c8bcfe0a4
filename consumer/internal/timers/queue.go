package timers

import (
	"container/heap"
	"iter"
	"slices"
	"time"
)

// step is how soon a step of the wall clock is noticed.
const step = time.Second

// Item is something that waits for a time of the wall clock.
type Item interface {
	// Placed notes the item's place in the queue, for [Queue.At] and [Queue.End].
	Placed(at int)
}

// Queue holds items until their times. The zero value is empty.
type Queue[T Item] struct{ order byTime[T] }

// Len is how many items there are.
func (q *Queue[T]) Len() int { return len(q.order) }

// Set adds an item. first: it is the next one that is due, and [Queue.Wait] is shorter than before.
func (q *Queue[T]) Set(at time.Time, it T) (first bool) {
	first = len(q.order) == 0 || at.Before(q.order[0].at)
	heap.Push(&q.order, timer[T]{at, it})
	return first
}

// Due takes out the next item if its time has come.
func (q *Queue[T]) Due(now time.Time) (it T, ok bool) {
	if len(q.order) == 0 || q.order[0].at.After(now) {
		return it, false
	}
	return q.End(0), true
}

// At is the item at a place, and its time.
func (q *Queue[T]) At(place int) (it T, at time.Time) { return q.order[place].it, q.order[place].at }

// End takes out the item at a place before its time.
func (q *Queue[T]) End(place int) T {
	it := q.order[place].it
	heap.Remove(&q.order, place)
	return it
}

// Wait is how long to wait for the next item. It is never longer than a second while there are items: the clock may be set meanwhile.
func (q *Queue[T]) Wait(now time.Time) time.Duration {
	if len(q.order) == 0 {
		return time.Hour
	}
	return min(max(q.order[0].at.Sub(now), 0), step)
}

// All are the items, in no order.
func (q *Queue[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range q.order {
			if !yield(q.order[i].it) {
				return
			}
		}
	}
}

// Remove takes out some items, and returns them in the order of their times.
func (q *Queue[T]) Remove(which func(T) bool) []T {
	var removed []timer[T]
	kept := q.order[:0]
	for _, one := range q.order {
		if which(one.it) {
			removed = append(removed, one)
		} else {
			kept = append(kept, one)
		}
	}
	clear(q.order[len(kept):])
	q.order = kept
	for i := range kept {
		kept[i].it.Placed(i)
	}
	heap.Init(&q.order)
	slices.SortStableFunc(removed, func(x, y timer[T]) int { return x.at.Compare(y.at) })
	items := make([]T, len(removed))
	for i, one := range removed {
		items[i] = one.it
	}
	return items
}
