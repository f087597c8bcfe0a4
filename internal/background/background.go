// Package background runs the parts of a test that serve until they are stopped.
package background

import (
	"context"
	"sync"
)

// T is a test.
type T interface {
	Helper()
	Context() context.Context
	Cleanup(f func())
	Errorf(format string, args ...any)
}

// Run calls run on a goroutine of its own. Its context ends with stop, or else with the test. Stop waits until run has
// returned, and fails the test where it returned an error. It may be called again.
func Run(t T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}
