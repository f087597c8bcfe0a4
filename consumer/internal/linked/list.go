package linked

// Volume is a number of items and their bytes in memory.
type Volume struct{ Items, Bytes int }

// Plus counts one more item of so many bytes.
func (v *Volume) Plus(bytes int) { v.Items, v.Bytes = v.Items+1, v.Bytes+bytes }

// Minus counts one item of so many bytes no more.
func (v *Volume) Minus(bytes int) { v.Items, v.Bytes = v.Items-1, v.Bytes-bytes }

// Links knows the items of a list.
type Links[T any] interface {
	Next(one *T) **T  // where an item keeps the one behind it
	Bytes(one *T) int // of an item in memory; always the same
}

// List is a queue of items, which knows its volume.
type List[T any, L Links[T]] struct {
	head, tail *T
	volume     Volume
}

// Head is the first item; nil: there is none.
func (l *List[T, L]) Head() *T { return l.head }

// Volume is that of all items.
func (l *List[T, L]) Volume() Volume { return l.volume }

// Push puts an item behind all others.
func (l *List[T, L]) Push(one *T) {
	var of L
	l.volume.Plus(of.Bytes(one))
	if l.tail == nil {
		l.head = one
	} else {
		*of.Next(l.tail) = one
	}
	l.tail = one
}

// PushFront puts an item before all others.
func (l *List[T, L]) PushFront(one *T) {
	var of L
	l.volume.Plus(of.Bytes(one))
	*of.Next(one) = l.head
	if l.head = one; l.tail == nil {
		l.tail = one
	}
}

// Pop takes out the first item. There is one.
func (l *List[T, L]) Pop() *T {
	one := l.head
	l.takeOut(&l.head, nil)
	return one
}

// Remove takes out the item at a place, from 0; nil: there is none.
func (l *List[T, L]) Remove(at int) *T {
	if at < 0 || at >= l.volume.Items {
		return nil
	}
	var of L
	var before *T
	link := &l.head
	for range at {
		before = *link
		link = of.Next(before)
	}
	one := *link
	l.takeOut(link, before)
	return one
}

// takeOut takes out the item that a link leads to, behind another one; nil: it is the first.
func (l *List[T, L]) takeOut(link **T, before *T) {
	var of L
	one := *link
	next := of.Next(one)
	l.volume.Minus(of.Bytes(one))
	if *link = *next; *link == nil {
		l.tail = before
	}
	*next = nil
}
