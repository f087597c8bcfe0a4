package turns

import (
	"container/heap"
	"maps"
	"slices"
)

// Queue has the items of several tenants. The zero value is empty.
type Queue[T any] struct {
	items int

	back    []T                   // items that were put back: they go before all others, the last one first
	named   map[string]*tenant[T] // those that have items, beside those in back
	order   byPass[T]             // the same; the one that goes next first
	pass    float64               // of the tenant that went last
	came    uint64                // tenants so far
	spare   *tenant[T]            // one that has gone, to be used again
	left    map[string]float64    // passes of tenants that have gone while others had items, as far as they are ahead of these
	weights map[string]float64    // of tenants that do not have the weight 1
}

// tenant has items.
type tenant[T any] struct {
	name   string
	weight float64
	pass   float64
	came   uint64 // among tenants of one pass, the one that came first goes first
	fresh  line[T]
	again  line[T] // they take turns with the fresh ones
	yields bool    // it is the turn of the fresh ones
	at     int     // its place in the order
}

// item is one with what it costs its tenant.
type item[T any] struct {
	it   T
	cost float64
}

// Len is how many items there are.
func (q *Queue[T]) Len() int { return q.items }

// Push adds an item behind those of its tenant, which it costs so many turns. Items that come again and
// fresh ones of a tenant go in turn.
func (q *Queue[T]) Push(name string, it T, cost int, fresh bool) {
	q.items++
	one := q.named[name]
	if one == nil {
		one = q.comes(name)
	}
	l := &one.again
	if fresh {
		l = &one.fresh
	}
	l.push(item[T]{it, float64(cost)})
}

// comes adds a tenant that had no items. Its first one follows.
func (q *Queue[T]) comes(name string) *tenant[T] {
	one := q.spare
	if q.spare = nil; one == nil {
		one = new(tenant[T])
	}
	one.name, one.weight, one.pass, one.came, one.yields = name, q.weightOf(name), max(q.pass, q.left[name]), q.came, false
	q.came++
	delete(q.left, name)
	if q.named == nil {
		q.named = make(map[string]*tenant[T])
	}
	q.named[name] = one
	heap.Push(&q.order, one)
	return one
}

// PutBack adds an item that was taken. It goes before all others, those that were put back before too, and costs nothing.
func (q *Queue[T]) PutBack(it T) {
	q.items++
	q.back = append(q.back, it)
}

// Pop takes the item that goes next. There must be one.
func (q *Queue[T]) Pop() T {
	q.items--
	if last := len(q.back) - 1; last >= 0 {
		it := q.back[last]
		clear(q.back[last:])
		q.back = q.back[:last]
		return it
	}
	one := q.order[0]
	next := one.pop()
	q.pass = max(q.pass, one.pass)
	one.pass += next.cost / one.weight
	if one.empty() {
		q.goes(one)
	} else {
		heap.Fix(&q.order, 0)
	}
	return next.it
}

// mostLeft is how many tenants are remembered that have gone.
const mostLeft = 1024

// goes removes a tenant without items. What it got counts when it comes again: a tenant that has one item at a time gets no
// more than its weight says.
func (q *Queue[T]) goes(one *tenant[T]) {
	heap.Remove(&q.order, one.at)
	delete(q.named, one.name)
	q.spare = one
	if len(q.order) == 0 {
		q.left = nil // nobody has waited for it
		return
	}
	if q.left == nil {
		q.left = make(map[string]float64)
	}
	q.left[one.name] = one.pass
	if len(q.left) > mostLeft {
		maps.DeleteFunc(q.left, func(_ string, pass float64) bool { return pass <= q.pass })
	}
	if len(q.left) > mostLeft {
		q.left = nil
	}
}

// pop takes the tenant's next item.
func (t *tenant[T]) pop() item[T] {
	if t.again.len() > 0 && (!t.yields || t.fresh.len() == 0) {
		t.yields = true
		return t.again.pop()
	}
	t.yields = false
	return t.fresh.pop()
}

// lines are the tenant's queues.
func (t *tenant[T]) lines() []*line[T] { return []*line[T]{&t.again, &t.fresh} }

func (t *tenant[T]) empty() bool { return t.again.len() == 0 && t.fresh.len() == 0 }

// Refund gives a tenant its turns back for an item that was taken and will come again. It goes before no tenant that comes
// now, however often it gets some back.
func (q *Queue[T]) Refund(name string, cost int) {
	if one := q.named[name]; one != nil {
		one.pass = max(q.pass, one.pass-float64(cost)/one.weight)
		heap.Fix(&q.order, one.at)
		return
	}
	if pass, ok := q.left[name]; ok {
		q.left[name] = pass - float64(cost)/q.weightOf(name)
	}
}

// Take takes the first item that matches: of those that were put back, else of a tenant.
func (q *Queue[T]) Take(match func(T) bool) (found T, ok bool) {
	for i, it := range slices.Backward(q.back) {
		if match(it) {
			q.back = slices.Delete(q.back, i, i+1)
			q.items--
			return it, true
		}
	}
	for _, one := range q.order {
		for _, l := range one.lines() {
			if found, ok = l.take(match); !ok {
				continue
			}
			if q.items--; one.empty() {
				q.goes(one)
			}
			return found, true
		}
	}
	return found, false
}

// DeleteFunc takes out all items for which gone is true.
func (q *Queue[T]) DeleteFunc(gone func(T) bool) {
	q.back = slices.DeleteFunc(q.back, gone)
	q.items = len(q.back)
	for _, one := range q.order {
		for _, l := range one.lines() {
			l.deleteFunc(gone)
			q.items += l.len()
		}
	}
	q.order = q.order.without(func(one *tenant[T]) bool {
		if one.empty() {
			delete(q.named, one.name)
		}
		return one.empty()
	})
	heap.Init(&q.order)
}

// Before is how many items go before the first one that matches: those that were put back, and those of its tenant, of which fresh ones
// and such that come again go in turn.
func (q *Queue[T]) Before(match func(T) bool) int {
	for i, it := range slices.Backward(q.back) {
		if match(it) {
			return len(q.back) - 1 - i
		}
	}
	for _, one := range q.order {
		lines := one.lines()
		for n, l := range lines {
			for i, it := range l.all() {
				if match(it.it) {
					return len(q.back) + i + min(i, lines[1-n].len())
				}
			}
		}
	}
	return 0
}

// SetWeights has other weights act on the items that wait already: by how much a tenant is ahead of the others
// follows its weight, also of one that has no items just now. Tenants that are not named have the weight 1. All weights are above 0.
func (q *Queue[T]) SetWeights(weights map[string]float64) {
	scaled := func(pass float64, name string) float64 {
		return q.pass + (pass-q.pass)*weightIn(q.weights, name)/weightIn(weights, name)
	}
	for _, one := range q.order {
		one.pass, one.weight = scaled(one.pass, one.name), weightIn(weights, one.name)
	}
	for name, pass := range q.left {
		q.left[name] = scaled(pass, name)
	}
	q.weights = weights
	heap.Init(&q.order)
}

func (q *Queue[T]) weightOf(name string) float64 { return weightIn(q.weights, name) }

func weightIn(weights map[string]float64, name string) float64 {
	if w, ok := weights[name]; ok {
		return w
	}
	return 1
}
