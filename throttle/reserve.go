package throttle

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Answer is what a job got: a slot, or [ErrFull], or neither. Neither means that the limit
// has no unit now.
type Answer struct {
	Slot Slot
	Err  error
}

// ErrGivenUp says that a slot was given up, or that there is no other one for long: the
// limit was cut or paused, or has lost its timeline. The job waits where it came from.
var ErrGivenUp = errors.New("the slot was given up")

// ErrFull says that the bucket had no room, and that jobs are not to wait.
var ErrFull = errors.New("the bucket is full")

// inquiry is asked of the reserving goroutine.
type inquiry[Q, A any] struct {
	q     Q
	reply chan A // has room for one
}

// ask waits for the answer of the reserving goroutine.
func ask[Q, A any](ctx context.Context, to chan<- inquiry[Q, A], q Q) (a A, err error) {
	reply := make(chan A, 1)
	select {
	case to <- inquiry[Q, A]{q, reply}:
	case <-ctx.Done():
		return a, context.Cause(ctx)
	}
	select {
	case a = <-reply:
		return a, nil
	case <-ctx.Done():
		return a, context.Cause(ctx)
	}
}

// Turn waits until a reservation is worth a call to Redis, and returns for how many
// jobs one may ask, at least one. The caller collects its jobs only then, so that the
// best of that moment are asked for. The error is the context's cause.
func (l *Limiter) Turn(ctx context.Context) (jobs int, err error) {
	return ask(ctx, l.turns, struct{}{})
}

// Reserve asks for a slot for each of so many jobs, the most urgent first, and returns as
// many answers in the same order. Slots rise, and each may lie up to one horizon ahead. A
// reservation that fails grants nothing: [Limiter.Turn] waits until Redis is to be asked
// again, and [Limiter.State] says why. The error is the context's cause; slots that come
// after that are lost.
func (l *Limiter) Reserve(ctx context.Context, jobs int) ([]Answer, error) {
	return ask(ctx, l.batches, jobs)
}

// Again waits for another slot, for a job that missed its own. It is in the next
// reservation, before all others, and a full bucket does not refuse it: it was let in once.
// The error is the context's cause, or [ErrGivenUp] where nothing is granted for long.
func (l *Limiter) Again(ctx context.Context) (Slot, error) {
	s, err := ask(ctx, l.retries, ctx)
	if err == nil && s.IsZero() {
		err = ErrGivenUp
	}
	return s, err
}

// serve asks for those that ask again, and for so many jobs behind them. It returns the
// answers of these.
func (r *reserver) serve(ctx context.Context, jobs int) []Answer {
	r.again = slices.DeleteFunc(r.again, func(w inquiry[context.Context, Slot]) bool { return w.q.Err() != nil })
	now := time.Now()
	most := r.units(now)
	again := min(len(r.again), most)
	asked := make([]Answer, again+min(jobs, most-again))
	switch {
	case len(asked) == 0:
	case r.onLease(now):
		r.useLease(asked, now)
	case r.grants(now):
		r.call(ctx, asked, again)
	}
	for _, a := range asked {
		r.last = later(r.last, a.Slot.NotBefore)
	}
	r.answerAgain(asked[:again])
	answers := make([]Answer, jobs)
	copy(answers, asked[again:])
	return answers
}

// answerAgain gives slots to the first of those that ask again. Those without one stay.
func (r *reserver) answerAgain(answers []Answer) {
	if len(r.again) == 0 { // they were let go
		return
	}
	var still []inquiry[context.Context, Slot]
	for i, w := range r.again {
		if i < len(answers) && !answers[i].Slot.IsZero() {
			w.reply <- answers[i].Slot
		} else {
			still = append(still, w)
		}
	}
	r.again = still
}
