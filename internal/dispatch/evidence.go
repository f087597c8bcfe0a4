package dispatch

import (
	"sync"
	"time"
)

// evidence is what the calls of this node have shown of the provider. It answers
// one question: when a call fails, is the job to blame or the provider?
//
// The job is to blame if the provider answered a call that was written since the
// job began, or since it failed last. A job that failed before is also to blame
// while nothing speaks against the provider. Only a job that fails for the first
// time speaks against it, or one that can't be blamed. A later call that is
// answered clears the provider.
//
// So an outage blames no job again and again, however long it lasts. And jobs
// that can never succeed reach their last attempt even where nothing else is left
// to be called.
type evidence struct {
	mu      sync.Mutex
	served  time.Time // when the latest call that was answered was written
	doubted time.Time // when a failure spoke against the provider last
}

// answered takes in a call that the provider answered with yes or no.
func (e *evidence) answered(wrote time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if wrote.After(e.served) {
		e.served = wrote
	}
}

// failed takes in a call that failed, of a job that began or failed last at since.
// It returns whether the job is to blame.
func (e *evidence) failed(now, since time.Time, again bool) (blamed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	blamed = e.served.After(since) || again && e.served.After(e.doubted)
	if !again || !blamed {
		e.doubted = now
	}
	return blamed
}

// doubts tells whether something speaks against the provider.
func (e *evidence) doubts() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.doubted.IsZero() && !e.served.After(e.doubted)
}

// servedWithin tells whether a call that was written so recently was answered.
func (e *evidence) servedWithin(d time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Since(e.served) < d
}
