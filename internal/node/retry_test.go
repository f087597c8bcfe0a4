package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dispatcher/consumer"
	"dispatcher/sender"
)

// A job that fails while the provider serves others is called as often as the
// attempts allow, exactly, and then dead-lettered.
func TestAttemptsAreExact(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{1, 2, 3, 6} {
		var r *rig
		s := rigged{workers: 4, attempts: attempts, backoff: 10 * time.Second, most: 10 * time.Second, failures: 20}
		s.answer = func(string, int) sender.Result {
			r.gate.answered(time.Now()) // as by a call of another job
			return unavailable
		}
		withRig(t, s, func(got *rig) {
			r = got
			r.produce("bad")
			r.until(2*time.Minute, "the job is not dead", func() bool { return r.dead() == 1 })
			calls := r.called("bad")
			if late := time.Since(calls[len(calls)-1]); len(calls) != attempts || late > time.Second {
				t.Errorf("got %d calls and the dead letter %v after the last one, want %d and at once", len(calls), late, attempts)
			}
		})
	}
}

// Beside other traffic the attempts are exact too: a failure that could not be judged at
// once counts when another call is answered. The job is not called for that.
func TestAttemptsAreExactBesideOtherTraffic(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{1, 2, 3, 6} {
		s := rigged{workers: 4, attempts: attempts, backoff: 200 * time.Millisecond, most: time.Second, failures: 20}
		s.answer = func(id string, _ int) sender.Result {
			if id == "bad" {
				return unavailable
			}
			return accepted
		}
		withRig(t, s, func(r *rig) {
			r.produce("good-0")
			r.until(time.Minute, "good is not called", func() bool { return len(r.called("good-0")) == 1 })
			time.Sleep(time.Second)
			r.produce("bad") // its first call is over before another one begins
			r.until(time.Minute, "bad is not called", func() bool { return len(r.called("bad")) == 1 })
			time.Sleep(50 * time.Millisecond)
			for n := 1; r.dead() == 0 && n < 200; n++ {
				r.produce(fmt.Sprint("good-", n))
				time.Sleep(100 * time.Millisecond)
			}
			if n := len(r.called("bad")); n != attempts || r.dead() != 1 {
				t.Errorf("got %d calls and %d dead letters, want %d and 1", n, r.dead(), attempts)
			}
		})
	}
}

// The attempts are those of the job and not of a node: they count on across restarts, in
// every order.
func TestAttemptsCountAcrossRestarts(t *testing.T) {
	t.Parallel()
	const attempts = 6
	for _, order := range []consumer.Order{consumer.OrderNone, consumer.OrderKey, consumer.OrderPartition} {
		var r *rig
		s := rigged{workers: 4, attempts: attempts, backoff: 10 * time.Second, most: 10 * time.Second, failures: 20, order: order}
		s.answer = func(id string, _ int) sender.Result {
			if id == "good" {
				return accepted
			}
			r.gate.answered(time.Now()) // as by a call of another job
			return unavailable
		}
		withRig(t, s, func(got *rig) {
			r = got
			r.produce("bad")
			for n := 2; n < attempts; n += 2 {
				r.until(time.Minute, "bad is not called", func() bool { return len(r.called("bad")) >= n })
				time.Sleep(time.Second)
				r.restart()
			}
			r.until(time.Minute, "the job is not dead", func() bool { return r.dead() == 1 })
			r.produce("good")
			r.until(time.Minute, "good is not called", func() bool { return len(r.called("good")) == 1 })
			if n := len(r.called("bad")); n != attempts {
				t.Errorf("order %s: got %d calls, want %d", order, n, attempts)
			}
		})
	}
}

// A job that used its attempts up, and whose dead letter could not be written before
// its node stopped, is dead-lettered without another call.
func TestAJobWithoutAttemptsLeftIsNotCalled(t *testing.T) {
	t.Parallel()
	var r *rig
	s := rigged{workers: 4, attempts: 3, backoff: time.Second, most: time.Second, failures: 20}
	s.answer = func(string, int) sender.Result {
		r.gate.answered(time.Now()) // as by a call of another job
		return unavailable
	}
	withRig(t, s, func(got *rig) {
		r = got
		fault := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "jobs.dlq", Err: kerr.NotLeaderForPartition, Count: -1})
		r.produce("bad")
		r.until(time.Minute, "bad is not called", func() bool { return len(r.called("bad")) == 3 })
		time.Sleep(time.Second)
		r.restart()
		fault.Remove()
		r.until(time.Minute, "the job is not dead", func() bool { return r.dead() == 1 })
		if n := len(r.called("bad")); n != 3 {
			t.Errorf("got %d calls, want 3", n)
		}
	})
}

// The wait before each call is twice as long as the one before, up to the most,
// and spread by half.
func TestTheBackoffDoubles(t *testing.T) {
	t.Parallel()
	const attempts, base, most = 8, 100 * time.Millisecond, 3 * time.Second
	var r *rig
	s := rigged{workers: 4, attempts: attempts, backoff: base, most: most, failures: 20}
	s.answer = func(string, int) sender.Result {
		r.gate.answered(time.Now())
		return unavailable
	}
	withRig(t, s, func(got *rig) {
		r = got
		r.produce("bad")
		r.until(time.Minute, "the job is not dead", func() bool { return r.dead() == 1 })
		calls := r.called("bad")
		for i := 1; i < len(calls); i++ {
			want := min(base<<(i-1), most)
			if got := calls[i].Sub(calls[i-1]) - latency; got < want/2 || got > want+want/2+10*time.Millisecond {
				t.Errorf("wait %d: got %v, want %v to %v", i, got, want/2, want+want/2)
			}
		}
	})
}

// A job that waits for its next call has no worker: one worker is enough for all.
func TestAJobThatWaitsHasNoWorker(t *testing.T) {
	t.Parallel()
	s := rigged{workers: 1, attempts: 3, backoff: time.Hour, most: time.Hour, failures: 100}
	s.answer = func(id string, _ int) sender.Result {
		if strings.HasPrefix(id, "bad") {
			return unavailable
		}
		return accepted
	}
	withRig(t, s, func(r *rig) {
		r.produce(append(ids("bad", 10), ids("good", 10)...)...)
		begun := time.Now()
		r.until(time.Minute, "the good jobs are not called", func() bool {
			return r.consumer.Status().Lanes[0].Asleep == 10 && len(r.called("good-9")) == 1
		})
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("the good jobs were called after %v", took)
		}
	})
}

// When the provider, having been down, answers again, the jobs that failed
// meanwhile are called at once, however long their wait was to be. A job that is
// to blame for its failure itself waits on.
func TestWaitingRetriesAreWokenWhenTheProviderAnswersAgain(t *testing.T) {
	t.Parallel()
	down := false
	var r *rig
	s := rigged{workers: 4, attempts: 5, backoff: 10 * time.Minute, most: 10 * time.Minute, failures: 5}
	s.answer = func(id string, nth int) sender.Result {
		if id == "bad" && nth == 1 {
			r.gate.answered(time.Now()) // as by a call of another job
			return unavailable
		}
		if down {
			return unavailable
		}
		return accepted
	}
	withRig(t, s, func(got *rig) {
		r = got
		set := func(to bool) {
			r.mu.Lock()
			defer r.mu.Unlock()
			down = to
		}
		r.produce("bad")
		r.until(time.Minute, "bad is not called", func() bool { return len(r.called("bad")) == 1 })
		time.Sleep(time.Second)
		set(true)
		r.produce(ids("during", 5)...)
		time.Sleep(30 * time.Second)
		set(false)
		r.produce("after")
		r.until(time.Minute, "nothing is called again", func() bool { return len(r.called("after")) == 1 })
		back := r.called("after")[0]
		time.Sleep(time.Second)
		for _, id := range ids("during", 5) {
			calls := r.called(id)
			if again := calls[len(calls)-1]; len(calls) < 2 || again.Sub(back) > latency+100*time.Millisecond {
				t.Errorf("%s: got %d calls, the last one %v after the provider was back, want it woken at once", id, len(calls), again.Sub(back))
			}
		}
		if n := len(r.called("bad")); n != 1 || r.dead() != 0 {
			t.Errorf("got %d calls of the job that is to blame and %d dead, want 1 and none", n, r.dead())
		}
	})
}

// An outage dead-letters nothing, whether or not other jobs come meanwhile, and
// also where jobs were in flight when it began.
func TestAnOutageBlamesNoJob(t *testing.T) {
	t.Parallel()
	const jobs = 110 // so many that each has to be the probe more than once
	for _, more := range []bool{false, true} {
		down := false
		s := rigged{workers: 8, attempts: 2, backoff: 200 * time.Millisecond, most: 5 * time.Second, failures: 20}
		s.answer = func(string, int) sender.Result {
			if down {
				return unavailable
			}
			return accepted
		}
		withRig(t, s, func(r *rig) {
			set := func(to bool) {
				r.mu.Lock()
				defer r.mu.Unlock()
				down = to
			}
			r.produce(ids("job", jobs)...)
			r.until(time.Minute, "nothing is called", func() bool { return len(r.called("job-100")) == 1 })
			set(true)
			for i := range 60 {
				time.Sleep(time.Second)
				if more {
					r.produce(ids("more"+string(rune('A'+i)), 2)...)
				}
			}
			set(false)
			want := int64(jobs)
			if more {
				want += 120
			}
			r.until(time.Minute, "not all are settled", func() bool { return r.settled() == want })
			if r.dead() != 0 {
				t.Errorf("more jobs %v: got %d dead letters, want none", more, r.dead())
			}
		})
	}
}

// What the provider asks for holds: the job waits for so long, has no worker
// meanwhile, and its call does not count.
func TestRetryAfterHolds(t *testing.T) {
	t.Parallel()
	const after = 20 * time.Second
	s := rigged{workers: 1, attempts: 1, backoff: time.Millisecond, most: time.Millisecond, failures: 20}
	s.answer = func(id string, nth int) sender.Result {
		if id == "throttled" && nth == 1 {
			return sender.Result{Kind: sender.Throttled, Status: 429, RetryAfter: after}
		}
		return accepted
	}
	withRig(t, s, func(r *rig) {
		r.produce("throttled", "other")
		r.until(time.Minute, "not all are settled", func() bool { return r.settled() == 2 })
		calls := r.called("throttled")
		if len(calls) != 2 || r.dead() != 0 {
			t.Fatalf("got %d calls and %d dead, want 2 and none", len(calls), r.dead())
		}
		if got := calls[1].Sub(calls[0]); got < after || got > after+after/10+time.Second {
			t.Errorf("got the second call after %v, want %v", got, after)
		}
		if other := r.called("other"); other[0].Sub(calls[0]) > time.Second {
			t.Errorf("the other job waited for %v", other[0].Sub(calls[0]))
		}
	})
}

// A wall of jobs that always fail, in front of good ones: all good ones are
// called, and all bad ones end as dead letters, with nothing left to prove that
// the provider is up.
func TestAWallOfFailingJobs(t *testing.T) {
	t.Parallel()
	const each = 300
	s := rigged{workers: 64, attempts: 3, backoff: 200 * time.Millisecond, most: 30 * time.Second, failures: 20}
	s.answer = func(id string, _ int) sender.Result {
		if strings.HasPrefix(id, "bad") {
			return unavailable
		}
		return accepted
	}
	withRig(t, s, func(r *rig) {
		r.produce(append(ids("bad", each), ids("good", each)...)...)
		r.until(time.Minute, "not all are settled", func() bool { return r.settled() == 2*each })
		if r.dead() != each {
			t.Errorf("got %d dead letters, want %d", r.dead(), each)
		}
	})
}

// A job that a worker has when the provider is found to be down is not called, and
// is the next to go: it has not failed.
func TestAJobThatWasNotCalledKeepsItsTurn(t *testing.T) {
	t.Parallel()
	s := rigged{workers: 1, attempts: 3, backoff: time.Millisecond, most: time.Millisecond, failures: 1}
	s.answer = func(string, int) sender.Result { return accepted }
	withRig(t, s, func(r *rig) {
		shut(t, r.gate, 1)
		time.Sleep(time.Second + time.Millisecond)
		probe, err := r.gate.enter() // so that the jobs find the gate shut
		if err != nil {
			t.Fatal(err)
		}
		r.produce(ids("job", 3)...)
		time.Sleep(5 * time.Second)
		if s := r.consumer.Status().Lanes[0]; s.InFlight != 0 || s.Asleep != 0 || len(r.called("job-0")) > 0 {
			t.Errorf("got %+v while the provider is down, want the jobs ready", s)
		}
		begun := time.Now()
		probe(sender.Result{Kind: sender.Accepted}, false)
		r.until(time.Minute, "not all are settled", func() bool { return r.settled() == 3 })
		first := r.called("job-0")
		if len(first) != 1 || first[0].After(r.called("job-1")[0]) || first[0].Sub(begun) > time.Second {
			t.Errorf("got the first job called at %v and the second at %v, want the first at once", first, r.called("job-1"))
		}
	})
}

// Where as many jobs sleep as may, one that fails goes to a retry tier in the
// order none, though no job is to blame in an outage. In the others it sleeps.
func TestBeyondTheBoundAJobGoesToATier(t *testing.T) {
	t.Parallel()
	for order, want := range map[consumer.Order]int64{consumer.OrderNone: 1, consumer.OrderKey: 0} {
		s := rigged{workers: 1, attempts: 3, backoff: 4 * time.Second, most: 4 * time.Second, failures: 20, order: order, tiers: []time.Duration{time.Second}}
		s.answer = func(string, int) sender.Result { return unavailable }
		withRig(t, s, func(r *rig) {
			r.crew.crowded = func() bool { return true }
			r.produce("job")
			r.until(time.Minute, "it is not called", func() bool { return len(r.called("job")) == 1 })
			time.Sleep(time.Second)
			if asleep := r.consumer.Status().Lanes[0].Asleep; r.records("jobs.retry.1s") != want || asleep != int(1-want) {
				t.Errorf("order %s: got %d in the tier and %d asleep, want %d and %d", order, r.records("jobs.retry.1s"), asleep, want, 1-want)
			}
		})
	}
}

// Jobs that failed on another node, and fail again on one that had no answer yet, are
// not dead-lettered: the provider may be down.
func TestAnOutageBlamesNoJobOfAnotherNode(t *testing.T) {
	t.Parallel()
	var r *rig
	down := false
	s := rigged{workers: 4, attempts: 6, backoff: time.Second, most: time.Second, failures: 20}
	s.answer = func(id string, _ int) sender.Result {
		if id != "bad" {
			return accepted
		}
		if !down {
			r.gate.answered(time.Now()) // as by a call of another job
		}
		return unavailable
	}
	withRig(t, s, func(got *rig) {
		r = got
		r.produce("bad")
		r.until(time.Minute, "bad is not called", func() bool { return len(r.called("bad")) == 3 })
		r.stop()
		down = true
		r.begin()
		r.produce("good")
		r.until(time.Minute, "good is not called", func() bool { return len(r.called("good")) == 1 })
		time.Sleep(5 * time.Minute)
		if r.dead() != 0 {
			t.Errorf("the job was dead-lettered in an outage, after %d calls", len(r.called("bad")))
		}
	})
}
