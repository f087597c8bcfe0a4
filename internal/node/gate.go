package node

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"dispatcher/sender"
)

// gate keeps calls from a provider that is plainly down: after so many failures
// in a row, of which no job is to blame, it is shut. One probe goes through at a
// time then, until one succeeds.
type gate struct {
	evidence

	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	probe   time.Duration
	changed func(open bool) // told when the breaker opens, and when the provider answers again

	untold   atomic.Pointer[func()] // the last change, which was not acted on yet
	sampling atomic.Bool            // a job that was taken as a sample is in flight

	mu    sync.Mutex
	state chan struct{} // closed and replaced when the breaker changes its state
	next  time.Time     // the next job may be a probe from then on
}

var (
	errCallFailed = errors.New("call failed")
	errNoCall     = errors.New("no call was made")
)

// errDown says that a job was not called, since the provider is down.
var errDown = errors.New("the provider is down")

// recent is the part of a probe's interval in which an answer keeps the gate
// open: failures in a row may be a wall of jobs that are to blame themselves.
const recent = 4

func newGate(failures int, probe time.Duration, changed func(open bool)) *gate {
	g := &gate{probe: probe, changed: changed, state: make(chan struct{})}
	g.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        "provider",
		MaxRequests: 1,
		Timeout:     probe,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return int(c.ConsecutiveFailures) >= failures && !g.servedWithin(probe/recent)
		},
		IsExcluded: func(err error) bool { return errors.Is(err, errNoCall) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			// The breaker holds its lock here; a log may be slow, and to wake jobs takes locks.
			switch {
			case to == gobreaker.StateClosed:
				g.untold.Store(new(func() { g.changed(false) }))
			case from == gobreaker.StateClosed:
				g.untold.Store(new(func() { g.changed(true) }))
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			close(g.state)
			g.state = make(chan struct{})
		},
	})
	return g
}

// enter asks whether a call may be made. If so, the returned function is to be
// called once, with its result and whether the job is to blame for it.
func (g *gate) enter() (done func(r sender.Result, blamed bool), err error) {
	report, err := g.breaker.Allow()
	if err != nil {
		return nil, errDown
	}
	return func(r sender.Result, blamed bool) {
		says := judgment(r)
		if blamed {
			says = errNoCall // it says nothing of the provider
		}
		report(says)
		g.tell()
	}, nil
}

// tell acts on what has changed. Only a call's result opens or closes the breaker.
func (g *gate) tell() {
	if act := g.untold.Swap(nil); act != nil {
		(*act)()
	}
}

// isOpen reports whether a job may be taken: the provider is not known to be
// down, or the job may be the next probe.
func (g *gate) isOpen() bool {
	switch g.breaker.State() {
	case gobreaker.StateClosed:
		return true
	case gobreaker.StateHalfOpen:
		g.mu.Lock()
		defer g.mu.Unlock()
		if now := time.Now(); !now.Before(g.next) {
			g.next = now.Add(g.probe)
			return true
		}
	case gobreaker.StateOpen:
	}
	return false
}

// isUp reports whether the provider answered last.
func (g *gate) isUp() bool { return g.breaker.State() == gobreaker.StateClosed }

// sample reports whether the next job is to be a sample: one that has not failed,
// from anywhere in the backlog. Where all calls fail, it tells a provider that is
// down from jobs that are to blame. One goes at a time, until sampled is called.
func (g *gate) sample() bool {
	return (!g.isUp() || g.doubts()) && g.sampling.CompareAndSwap(false, true)
}

// sampled notes that the sample is not in flight any more.
func (g *gate) sampled() { g.sampling.Store(false) }

// open waits until the provider is not known to be down, or a probe is due.
func (g *gate) open(ctx context.Context) error {
	for {
		changed := g.change()
		if g.isOpen() {
			return nil
		}
		if err := g.wait(ctx, changed); err != nil {
			return err
		}
	}
}

func (g *gate) change() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state
}

// wait is spread a little, so that nodes don't probe in step.
func (g *gate) wait(ctx context.Context, changed <-chan struct{}) error {
	timer := time.NewTimer(g.probe/4 + rand.N(g.probe/4+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-changed:
	case <-timer.C:
	}
	return nil
}

// judgment is what a result says of the provider: whoever answers is up.
func judgment(r sender.Result) error {
	switch r.Kind {
	case sender.Accepted, sender.Rejected, sender.Throttled:
		return nil
	case sender.Unavailable, sender.Unknown:
		return errCallFailed
	case sender.NotSent:
		return errNoCall
	}
	return errNoCall
}
