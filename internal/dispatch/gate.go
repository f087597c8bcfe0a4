package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"dispatcher/sender"
)

// gate keeps calls from a provider that is plainly down: after so many failures
// in a row it is shut, and one probe goes through at a time until one succeeds.
type gate struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	probe   time.Duration

	untold atomic.Pointer[func()] // the last change, which is not in the log yet

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when the breaker changes its state
	up      chan struct{} // closed and replaced when the provider answers again
}

var (
	errCallFailed = errors.New("call failed")
	errNoCall     = errors.New("no call was made")
)

func newGate(failures int, probe time.Duration, log *slog.Logger) *gate {
	g := &gate{probe: probe, changed: make(chan struct{}), up: make(chan struct{})}
	g.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        "provider",
		MaxRequests: 1,
		Timeout:     probe,
		ReadyToTrip: func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= failures },
		IsExcluded:  func(err error) bool { return errors.Is(err, errNoCall) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			// The breaker holds its lock here, and a log may be slow.
			switch {
			case to == gobreaker.StateClosed:
				g.untold.Store(new(func() { log.Info("provider answers again") }))
			case from == gobreaker.StateClosed:
				g.untold.Store(new(func() {
					log.Warn("provider is down; jobs wait, and it is probed", "failures_in_a_row", failures, "probe_every", probe)
				}))
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			close(g.changed)
			g.changed = make(chan struct{})
			if to == gobreaker.StateClosed {
				close(g.up)
				g.up = make(chan struct{})
			}
		},
	})
	return g
}

// enter waits until a call may be made. The returned function is to be called
// once, with its result.
func (g *gate) enter(ctx context.Context) (func(sender.Result), error) {
	for {
		changed := g.change()
		done, err := g.breaker.Allow()
		if err == nil {
			return func(r sender.Result) {
				done(judgment(r))
				g.tell()
			}, nil
		}
		if err := g.wait(ctx, changed); err != nil {
			return nil, err
		}
	}
}

// tell logs what has changed. Only a call's result opens or closes the breaker.
func (g *gate) tell() {
	if say := g.untold.Swap(nil); say != nil {
		(*say)()
	}
}

// isOpen reports whether the provider is not known to be down.
func (g *gate) isOpen() bool { return g.breaker.State() != gobreaker.StateOpen }

// isUp reports whether the provider answered last.
func (g *gate) isUp() bool { return g.breaker.State() == gobreaker.StateClosed }

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
	return g.changed
}

// answersAgain closes when the provider, having been down, answers again.
func (g *gate) answersAgain() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.up
}

// wait is spread a little, so that the same job is not always the probe.
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
	case sender.Withheld:
		return errNoCall
	}
	return errNoCall
}
