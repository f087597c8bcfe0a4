package timers

import "time"

// timer is an item with its time.
type timer[T Item] struct {
	at time.Time
	it T
}

// byTime has the item first that is due first.
type byTime[T Item] []timer[T]

// Len implements [heap.Interface], as do Less, Swap, Push and Pop.
func (t byTime[T]) Len() int           { return len(t) }
func (t byTime[T]) Less(i, j int) bool { return t[i].at.Before(t[j].at) }

func (t byTime[T]) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].it.Placed(i)
	t[j].it.Placed(j)
}

// Push implements [heap.Interface].
func (t *byTime[T]) Push(x any) {
	if one, ok := x.(timer[T]); ok {
		*t = append(*t, one)
		one.it.Placed(len(*t) - 1)
	}
}

// Pop implements [heap.Interface].
func (t *byTime[T]) Pop() any {
	last := len(*t) - 1
	one := (*t)[last]
	(*t)[last] = timer[T]{}
	*t = (*t)[:last]
	return one
}
