package turns

import "slices"

// line is a queue of one tenant.
type line[T any] struct {
	items []item[T]
	head  int // those before it have gone
}

func (l *line[T]) len() int { return len(l.items) - l.head }

func (l *line[T]) all() []item[T] { return l.items[l.head:] }

func (l *line[T]) push(i item[T]) { l.items = append(l.items, i) }

func (l *line[T]) pop() item[T] {
	first := l.items[l.head]
	clear(l.items[l.head : l.head+1])
	if l.head++; 2*l.head >= len(l.items) { // half of them have gone
		l.items, l.head = slices.Delete(l.items, 0, l.head), 0
	}
	return first
}

// take takes the first item that matches.
func (l *line[T]) take(match func(T) bool) (found T, ok bool) {
	i := slices.IndexFunc(l.all(), func(i item[T]) bool { return match(i.it) })
	if i < 0 {
		return found, false
	}
	found = l.all()[i].it
	l.items = slices.Delete(l.items, l.head+i, l.head+i+1)
	return found, true
}

func (l *line[T]) deleteFunc(gone func(T) bool) {
	l.items, l.head = slices.Delete(l.items, 0, l.head), 0
	l.items = slices.DeleteFunc(l.items, func(i item[T]) bool { return gone(i.it) })
}

// byPass has the tenant with the least pass first.
type byPass[T any] []*tenant[T]

// Len implements [heap.Interface], as do Less, Swap, Push and Pop.
func (p byPass[T]) Len() int { return len(p) }

func (p byPass[T]) Less(i, j int) bool {
	return p[i].pass < p[j].pass || p[i].pass == p[j].pass && p[i].came < p[j].came
}

func (p byPass[T]) Swap(i, j int) {
	p[i], p[j] = p[j], p[i]
	p[i].at, p[j].at = i, j
}

// Push implements [heap.Interface].
func (p *byPass[T]) Push(x any) {
	if one, ok := x.(*tenant[T]); ok {
		one.at = len(*p)
		*p = append(*p, one)
	}
}

// Pop implements [heap.Interface].
func (p *byPass[T]) Pop() any {
	last := len(*p) - 1
	one := (*p)[last]
	(*p)[last] = nil
	*p = (*p)[:last]
	return one
}

// without are the others.
func (p byPass[T]) without(gone func(*tenant[T]) bool) byPass[T] {
	p = slices.DeleteFunc(p, gone)
	for i, one := range p {
		one.at = i
	}
	return p
}
