package linked

// Neighbours knows the items of a chain.
type Neighbours[T any] interface {
	Older(one *T) **T // where an item keeps the one that came before it
	Newer(one *T) **T // and the one that came after it
}

// Chain is items in the order in which they came. The oldest one is known, whatever is taken out in between.
type Chain[T any, N Neighbours[T]] struct{ oldest, newest *T }

// Oldest is the item that came first; nil: there is none.
func (c *Chain[T, N]) Oldest() *T { return c.oldest }

// Newest is the item that came last; nil: there is none.
func (c *Chain[T, N]) Newest() *T { return c.newest }

// Add puts an item behind all others.
func (c *Chain[T, N]) Add(one *T) {
	var of N
	*of.Older(one) = c.newest
	if c.newest == nil {
		c.oldest = one
	} else {
		*of.Newer(c.newest) = one
	}
	c.newest = one
}

// Remove takes an item out. It has no effect on one that is in no chain.
func (c *Chain[T, N]) Remove(one *T) {
	var of N
	older, newer := of.Older(one), of.Newer(one)
	if *older != nil {
		*of.Newer(*older) = *newer
	} else if c.oldest == one {
		c.oldest = *newer
	}
	if *newer != nil {
		*of.Older(*newer) = *older
	} else if c.newest == one {
		c.newest = *older
	}
	*older, *newer = nil, nil
}
