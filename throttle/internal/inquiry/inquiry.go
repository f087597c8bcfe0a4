// Package inquiry is a question to a goroutine that answers when it can. An answer that was given is
// never lost: either the caller gets it, or the goroutine learns that nobody does.
//
// It starts no goroutine. [Ask] waits on that of the caller; [Inquiry.Answer] never waits.
package inquiry

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrMore is the error of a caller that had a notice before it had its answer.
var ErrMore = errors.New("there is more to ask for")

// Inquiry is a question whose answer is awaited. The zero value is none.
type Inquiry[Q, A any] struct {
	Q     Q
	reply chan A       // has room for one
	over  *atomic.Bool // it is answered, or nobody waits for the answer
}

// New is a question that nobody has been asked.
func New[Q, A any](q Q) Inquiry[Q, A] {
	return Inquiry[Q, A]{q, make(chan A, 1), new(atomic.Bool)}
}

// IsZero reports whether it is no question at all.
func (i Inquiry[Q, A]) IsZero() bool { return i.reply == nil }

// Over reports whether it is answered, or nobody waits for the answer.
func (i Inquiry[Q, A]) Over() bool { return i.over.Load() }

// Answer reports whether somebody gets the answer.
func (i Inquiry[Q, A]) Answer(a A) bool {
	if i.over.Swap(true) {
		return false
	}
	i.reply <- a
	return true
}

// Ask waits for the answer of the goroutine that reads the channel. The error is the cause of the context's end,
// or [ErrMore] after a notice of more. With either, an answer that was given is returned all the same.
func Ask[Q, A any](ctx context.Context, to chan<- Inquiry[Q, A], q Q, more <-chan struct{}) (a A, err error) {
	i := New[Q, A](q)
	select {
	case to <- i:
	case <-ctx.Done():
		return a, context.Cause(ctx)
	}
	select {
	case a = <-i.reply:
		return a, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-more:
		err = ErrMore
	}
	if i.over.Swap(true) {
		return <-i.reply, nil
	}
	return a, err
}
