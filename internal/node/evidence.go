package node

import (
	"slices"
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
//
// A failure of which nobody is to blame yet is judged once more when the provider
// next answers a call: see [suspicion].
type evidence struct {
	mu       sync.Mutex
	served   time.Time // when the latest call that was answered was written
	doubted  time.Time // when a failure spoke against the provider last
	suspects []*suspicion
}

// suspicion is about a failure that could not be judged at once. The job is to
// blame for it if the provider answered calls shortly before and after it. Several
// failures of a job between two answers are one suspicion, so that an outage costs
// a job one of its attempts at most, and none if it lasts longer than [shortly].
type suspicion struct {
	since  time.Time // when the job began or failed last
	before time.Time // when the latest answered call before it was written
	blame  func()    // told when the job is to blame; cheap

	judged bool // guarded by the evidence's lock, as the next one
	blamed bool
}

// shortly is how far apart the answers before and after a failure may be.
const shortly = 10 * time.Second

// mostSuspicions bounds the memory at the beginning of an outage.
const mostSuspicions = 1 << 16

// suspect begins a suspicion, which ends with the next answer. It is nil where none
// could blame the job any more, or where there are too many.
func (e *evidence) suspect(now, since time.Time, blame func()) *suspicion {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Sub(e.served) > shortly || len(e.suspects) >= mostSuspicions {
		return nil
	}
	s := &suspicion{since: since, before: e.served, blame: blame}
	e.suspects = append(e.suspects, s)
	return s
}

// decided reports whether a suspicion has ended, and whether the job is to blame.
func (e *evidence) decided(s *suspicion) (judged, blamed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return s.judged, s.blamed
}

// answered takes in a call that the provider answered with yes or no.
func (e *evidence) answered(wrote time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if wrote.After(e.served) {
		e.served = wrote
	}
	e.suspects = slices.DeleteFunc(e.suspects, func(s *suspicion) bool { return s.judge(wrote) })
}

// judge ends the suspicion, if the call that was answered was written after it began.
func (s *suspicion) judge(wrote time.Time) (judged bool) {
	if !wrote.After(s.since) {
		return false
	}
	s.judged = true
	if s.blamed = wrote.Sub(s.before) <= shortly; s.blamed {
		s.blame()
	}
	return true
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
