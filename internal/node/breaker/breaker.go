package breaker

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

// Breaker is the circuit breaker. Make it with [New].
type Breaker struct {
	attributor

	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]
	probe   time.Duration
	changed func(open bool)

	pendingChange atomic.Pointer[func()] // the last change, of which changed was not notified yet
	sampling      atomic.Bool            // a sample is in flight

	mu        sync.Mutex
	state     chan struct{} // closed and replaced when the circuit changes its state
	nextProbe time.Time     // the next job may be a probe from then on
}

// ErrOpen says that a job was not called, since the provider is down.
var ErrOpen = errors.New("the provider is down")

var (
	errCallFailed = errors.New("call failed")
	errNoCall     = errors.New("no call was made")
)

// recentPart is the part of the probe interval, one in so many, in which an answer keeps
// the breaker closed: failures in a row may all be of jobs that can never succeed.
const recentPart = 4

// New makes a closed breaker that opens after so many failures in a row, and probes
// at this interval. It calls changed when it opens, and when the provider answers
// again; changed runs on the goroutine that reports the call.
func New(failures int, probe time.Duration, changed func(open bool)) *Breaker {
	b := &Breaker{probe: probe, changed: changed, state: make(chan struct{})}
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        "provider",
		MaxRequests: 1,
		Timeout:     probe,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return int(c.ConsecutiveFailures) >= failures && !b.answeredWithin(probe/recentPart)
		},
		IsExcluded:    func(err error) bool { return errors.Is(err, errNoCall) },
		OnStateChange: func(_ string, from, to gobreaker.State) { b.onStateChange(from, to) },
	})
	return b
}

// onStateChange runs under the circuit's lock. It defers changed, which may write a
// log and take other locks.
func (b *Breaker) onStateChange(from, to gobreaker.State) {
	switch {
	case to == gobreaker.StateClosed:
		b.pendingChange.Store(new(func() { b.changed(false) }))
	case from == gobreaker.StateClosed:
		b.pendingChange.Store(new(func() { b.changed(true) }))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.state)
	b.state = make(chan struct{})
}

// Allow asks whether a call may be made now, and returns [ErrOpen] if not. The caller
// calls done once, with the call's result and its attribution.
func (b *Breaker) Allow() (done func(sender.Result, Attribution), err error) {
	report, err := b.circuit.Allow()
	if err != nil {
		return nil, ErrOpen
	}
	return func(r sender.Result, to Attribution) {
		outcome := outcomeOf(r.Kind)
		if to == ToJob {
			outcome = errNoCall // it shows nothing of the provider
		}
		report(outcome)
		if notify := b.pendingChange.Swap(nil); notify != nil {
			(*notify)() // only a call's result opens or closes the circuit
		}
	}, nil
}

// TakeTurn reports whether a job may be taken: the breaker is closed, or the job is the
// next probe. A true takes the turn of that probe, so a caller acts on it.
func (b *Breaker) TakeTurn() bool {
	switch b.circuit.State() {
	case gobreaker.StateClosed:
		return true
	case gobreaker.StateHalfOpen:
		b.mu.Lock()
		defer b.mu.Unlock()
		if now := time.Now(); !now.Before(b.nextProbe) {
			b.nextProbe = now.Add(b.probe)
			return true
		}
	case gobreaker.StateOpen:
	}
	return false
}

// Closed reports whether the breaker lets all calls through.
func (b *Breaker) Closed() bool { return b.circuit.State() == gobreaker.StateClosed }

// StartSample reports whether the next job is to be a sample. That is so where calls
// fail, for one job at a time: until [Breaker.EndSample].
func (b *Breaker) StartSample() bool {
	return (!b.Closed() || b.failing()) && b.sampling.CompareAndSwap(false, true)
}

// EndSample notes that the sample is not in flight any more.
func (b *Breaker) EndSample() { b.sampling.Store(false) }

// Await waits until [Breaker.TakeTurn] allows a job. It returns the context's cause if
// that ends first.
func (b *Breaker) Await(ctx context.Context) error {
	for {
		changed := b.stateChange()
		if b.TakeTurn() {
			return nil
		}
		if err := b.awaitChange(ctx, changed); err != nil {
			return err
		}
	}
}

func (b *Breaker) stateChange() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// awaitChange also returns after a random time, so that nodes don't probe in step.
func (b *Breaker) awaitChange(ctx context.Context, changed <-chan struct{}) error {
	timer := time.NewTimer(b.probe/4 + rand.N(b.probe/4+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-changed:
	case <-timer.C:
	}
	return nil
}

// outcomeOf is what a result shows of the provider: nil for any answer.
func outcomeOf(k sender.Kind) error {
	switch k {
	case sender.Accepted, sender.Rejected, sender.Throttled:
		return nil
	case sender.Unavailable, sender.Unknown:
		return errCallFailed
	case sender.NotSent:
		return errNoCall
	}
	return errNoCall
}
