package node

import (
	"errors"
	"math/rand/v2"
	"time"

	"dispatcher/consumer/deadletter"

	"github.com/cenkalti/backoff/v5"

	"dispatcher/consumer"
	"dispatcher/internal/dedup"
	"dispatcher/sender"
)

// This file is about a job that is to be called again. No worker waits with it:
// the job goes to a retry tier, or to sleep in the consumer.

// history is what a job has been through on this node. It travels with the job
// while it sleeps.
type history struct {
	calls  int           // that left the process
	sentAt time.Time     // when the last of them did
	failed int           // calls that the job is to blame for
	waits  int           // between its calls
	seen   time.Time     // when it failed last, or began
	again  bool          // it has failed
	last   sender.Result // of the call that failed last
	doubt  *suspicion    // of failures that are not judged yet; nil: there are none

	entry   *dedup.Entry // nil: there is no dedup
	entryID string
}

// recall takes up what the job has been through; false: nothing on this node.
func (t *try) recall() bool {
	if h, ok := t.d.Memo().(*history); ok {
		t.history = *h
		t.settleDoubt()
		return true
	}
	past := t.d.Attempts()
	t.history = history{calls: past.Calls, failed: past.Failures, waits: past.Failures, seen: time.Now(), again: past.Failures > 0 && t.d.FromRetryTopic()}
	return false
}

func (t *try) past() consumer.Attempts { return consumer.Attempts{Calls: t.calls, Failures: t.failed} }

// judge takes in what a call shows of the provider, and reports whether the job
// is to blame for it.
func (t *try) judge(r sender.Result) (blamed bool) {
	switch err := judgment(r); {
	case err == nil && r.Kind != sender.Throttled:
		t.gate.answered(r.WroteAt)
	case errors.Is(err, errCallFailed):
		t.settleDoubt()
		now := time.Now()
		if blamed = t.gate.failed(now, t.seen, t.again); blamed {
			t.failed++
		} else if t.doubt == nil {
			t.doubt = t.gate.suspect(now, t.seen, t.d.CountFailure)
		}
		t.seen, t.again, t.last = now, true, r
	}
	return blamed
}

// settleDoubt counts a failure that was judged meanwhile.
func (t *try) settleDoubt() {
	if t.doubt == nil {
		return
	}
	if judged, blamed := t.gate.decided(t.doubt); judged {
		t.doubt = nil
		if blamed {
			t.failed++
		}
	}
}

// tryAgain sees to a job that is to be called again, unless that was its last
// attempt. An outage is waited for in memory, since it ends for all at once, as
// long as there is room.
func (t *try) tryAgain(v verdict, r sender.Result) {
	t.d.SetAttempts(t.past())
	if t.blamed && t.failed >= t.attempts {
		t.dead(failure(deadletter.ClassExhausted, r, t.calls), r)
		return
	}
	t.missed(r)
	until := time.Now().Add(t.backOff(v.after))
	if t.blamed || t.doubt == nil && t.crowded() {
		f := failure(v.class, r, t.calls)
		f.Failures = t.failed
		if t.d.RetryLater(until, f) {
			return
		}
	}
	t.sleep(until, !t.blamed && v.after == 0)
}

// putBack gives the worker up of a job that was not called, since the provider is
// down. The line hands the job out again when its turn comes.
func (t *try) putBack() {
	t.spare()
	t.release()
	t.d.Requeue()
}

// sleep gives the worker up until the job's next call. Early: what the job waits
// for is over when the provider, having been down, answers again.
func (t *try) sleep(until time.Time, early bool) {
	t.spare()
	t.d.Sleep(consumer.SleepOptions{Until: until, WakeEarly: early, Failed: true, Attempts: t.past(), Memo: new(t.history)})
}

// backOff is how long to wait before the next call: as long as the provider
// asked for, with some jitter on top, or else a backoff that doubles.
func (t *try) backOff(asked time.Duration) time.Duration {
	t.waits++
	if asked > 0 {
		return asked + rand.N(asked/10+1)
	}
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = t.doubled(t.waits-1), t.backoffMost
	b.Reset()
	return b.NextBackOff()
}

// doubled is the backoff after so many waits.
func (t *try) doubled(waits int) time.Duration {
	b := t.backoff
	for ; waits > 0 && b < t.backoffMost; waits-- {
		b *= 2
	}
	return min(b, t.backoffMost)
}
