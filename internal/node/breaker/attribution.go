package breaker

import (
	"errors"
	"slices"
	"sync"
	"time"

	"dispatcher/sender"
)

// Attribution is to whom the failure of a call is attributed.
type Attribution int

// The attributions.
const (
	// ToProvider: the failure does not count against the job. Calls that did not
	// fail have this attribution too.
	ToProvider Attribution = iota
	// ToJob: the failure counts as one of the job's attempts.
	ToJob
	// Pending: a failure of the job is attributed when the provider next answers a call.
	Pending
)

// Record is what this node knows of one job's failures. It travels with the job
// from call to call.
type Record struct {
	Failures int           // those that are attributed to the job
	Since    time.Time     // when the job failed last or, before that, when it began
	Failed   bool          // the job has failed
	Last     sender.Result // of the call that failed last

	pending *pending // nil: no attribution is pending
}

// Attribute records the result of a job's call, and attributes its failure. A call of which
// nothing was written shows nothing of its job: its failure is the provider's. When a
// failure that is pending now is attributed to the job later, count is called, once, under
// a lock: it must be cheap.
func (b *Breaker) Attribute(j *Record, r sender.Result, now time.Time, count func()) Attribution {
	switch outcome := outcomeOf(r.Kind); {
	case outcome == nil && r.Kind != sender.Throttled:
		b.Answered(r.WroteAt)
	case errors.Is(outcome, errCallFailed) && r.WroteAt.IsZero():
		b.failed(now, now, false)
		j.Since = now
	case errors.Is(outcome, errCallFailed):
		b.Resolve(j)
		toJob := b.failed(now, j.Since, j.Failed)
		if toJob {
			j.Failures++
		} else if j.pending == nil {
			j.pending = b.awaitAnswer(now, j.Since, count)
		}
		j.Since, j.Failed, j.Last = now, true, r
		if toJob {
			return ToJob
		}
	}
	if j.pending != nil {
		return Pending
	}
	return ToProvider
}

// Resolve counts a failure whose attribution was pending and has been decided since.
func (b *Breaker) Resolve(j *Record) {
	if j.pending == nil {
		return
	}
	if decided, toJob := b.decided(j.pending); decided {
		j.pending = nil
		if toJob {
			j.Failures++
		}
	}
}

// attributor attributes failed calls, from what the calls of this node have shown of
// the provider.
//
// A failure is attributed to its job if the provider answered a call that was written
// since the job began, or since it failed last. If the job failed before, its failure
// is also attributed to it while no failure counts against the provider. A failure
// counts against the provider if it is its job's first, or is not attributed to its
// job. When the provider answers a call that was written later, none counts any more.
//
// So an outage is not attributed to the same job again and again, however long it
// lasts, unless it failed before the outage, and no job is called that did not.
// And jobs that can never succeed reach their last attempt even where no other
// job is left to be called.
//
// A failure that is not attributed to its job at once may be attributed when the
// provider next answers a call: see [pending].
type attributor struct {
	mu         sync.Mutex
	answeredAt time.Time // when the latest call that was answered was written
	answerAt   time.Time // when the latest answer came
	failedAt   time.Time // when a failure last counted against the provider
	pending    []*pending
}

// pending is a failure whose attribution is pending. It is attributed to the job if
// the answered calls before and after it are at most [maxGap] apart. Several failures
// of a job between two answers are one: an outage costs a job at most one of its
// attempts, and none if the outage lasts longer than maxGap.
type pending struct {
	since    time.Time // when the job began or failed last
	answered time.Time // when the latest answered call before it was written
	count    func()    // called when it is attributed to the job

	// Guarded by the attributor's lock.
	decided bool
	toJob   bool
}

// maxGap is how far apart the answers before and after a failure may be.
const maxGap = 10 * time.Second

// maxPending bounds the memory at the beginning of an outage.
const maxPending = 1 << 16

// awaitAnswer makes the attribution of a failure pending until the next answer. It returns
// nil where that can't attribute the failure to the job any more, or where too many
// are pending.
func (a *attributor) awaitAnswer(now, since time.Time, count func()) *pending {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.answeredAt) > maxGap || len(a.pending) >= maxPending {
		return nil
	}
	p := &pending{since: since, answered: a.answeredAt, count: count}
	a.pending = append(a.pending, p)
	return p
}

// decided reports whether the attribution was decided, and whether it is to the job.
func (a *attributor) decided(p *pending) (decided, toJob bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return p.decided, p.toJob
}

// Answered records that the provider accepted or rejected, just now, a call that was written
// at this time.
func (a *attributor) Answered(wrote time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answerAt = time.Now()
	if wrote.After(a.answeredAt) {
		a.answeredAt = wrote
	}
	a.pending = slices.DeleteFunc(a.pending, func(p *pending) bool { return p.decide(wrote) })
}

// decide attributes the failure, if the answered call was written after since.
func (p *pending) decide(wrote time.Time) (decided bool) {
	if !wrote.After(p.since) {
		return false
	}
	p.decided = true
	if p.toJob = wrote.Sub(p.answered) <= maxGap; p.toJob {
		p.count()
	}
	return true
}

// failed records a failed call of a job that began, or failed last, at since, and
// reports whether the failure is attributed to the job at once.
func (a *attributor) failed(now, since time.Time, again bool) (toJob bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	toJob = a.answeredAt.After(since) || again && a.answeredAt.After(a.failedAt)
	if !again || !toJob {
		a.failedAt = now
	}
	return toJob
}

// failing reports whether a failure counts against the provider, and no later call
// was answered.
func (a *attributor) failing() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.failedAt.IsZero() && !a.answeredAt.After(a.failedAt)
}

// answeredWithin reports whether an answer came so recently, however long ago its call was written.
func (a *attributor) answeredWithin(d time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Since(a.answerAt) < d
}
