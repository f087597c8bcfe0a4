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
	"dispatcher/internal/node/breaker"
	"dispatcher/sender"
)

// A job that fails while the provider serves others is called as often as the
// attempts allow, exactly, and then dead-lettered.
func TestAttemptsAreExact(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{1, 2, 3, 6} {
		var b *bubble
		s := setup{workers: 4, attempts: attempts, backoff: 10 * time.Second, maxBackoff: 10 * time.Second, failures: 20}
		s.answer = func(string, int) sender.Result {
			b.breaker.Answered(time.Now()) // as by a call of another job
			return unavailable
		}
		inBubble(t, s, func(got *bubble) {
			b = got
			b.produce("bad")
			b.until(2*time.Minute, "the job is dead", func() bool { return b.dead() == 1 })
			calls := b.called("bad")
			if late := time.Since(calls[len(calls)-1]); len(calls) != attempts || late > time.Second {
				t.Errorf("got %d calls and the dead letter %v after the last one, want %d and at once", len(calls), late, attempts)
			}
		})
	}
}

// Beside other traffic the attempts are exact too: a failure whose attribution is
// pending counts when another call is answered. The job is not called for that.
func TestAttemptsAreExactBesideOtherTraffic(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{1, 2, 3, 6} {
		s := setup{workers: 4, attempts: attempts, backoff: 200 * time.Millisecond, maxBackoff: time.Second, failures: 20}
		s.answer = func(id string, _ int) sender.Result {
			if id == "bad" {
				return unavailable
			}
			return accepted
		}
		inBubble(t, s, func(b *bubble) {
			b.produce("good-0")
			b.until(time.Minute, "good is called", func() bool { return len(b.called("good-0")) == 1 })
			time.Sleep(time.Second)
			b.produce("bad") // its first call is over before another one begins
			b.until(time.Minute, "bad is called", func() bool { return len(b.called("bad")) == 1 })
			time.Sleep(50 * time.Millisecond)
			for n := 1; b.dead() == 0 && n < 200; n++ {
				b.produce(fmt.Sprint("good-", n))
				time.Sleep(100 * time.Millisecond)
			}
			if n := len(b.called("bad")); n != attempts || b.dead() != 1 {
				t.Errorf("got %d calls and %d dead letters, want %d and 1", n, b.dead(), attempts)
			}
		})
	}
}

// Attempts belong to the job and not to a node: counting goes on across restarts, in every
// order.
func TestAttemptsCountAcrossRestarts(t *testing.T) {
	t.Parallel()
	const attempts = 6
	for _, order := range []consumer.Order{consumer.OrderNone, consumer.OrderKey, consumer.OrderPartition} {
		var b *bubble
		s := setup{workers: 4, attempts: attempts, backoff: 10 * time.Second, maxBackoff: 10 * time.Second, failures: 20, order: order}
		s.answer = func(id string, _ int) sender.Result {
			if id == "good" {
				return accepted
			}
			b.breaker.Answered(time.Now()) // as by a call of another job
			return unavailable
		}
		inBubble(t, s, func(got *bubble) {
			b = got
			b.produce("bad")
			for n := 2; n < attempts; n += 2 {
				b.until(time.Minute, "bad is called", func() bool { return len(b.called("bad")) >= n })
				time.Sleep(time.Second)
				b.restart()
			}
			b.until(time.Minute, "the job is dead", func() bool { return b.dead() == 1 })
			b.produce("good")
			b.until(time.Minute, "good is called", func() bool { return len(b.called("good")) == 1 })
			if n := len(b.called("bad")); n != attempts {
				t.Errorf("order %s: got %d calls, want %d", order, n, attempts)
			}
		})
	}
}

// A job that used its attempts up, and whose dead letter could not be written before
// its node stopped, is dead-lettered without another call.
func TestAJobWithoutAttemptsLeftIsNotCalled(t *testing.T) {
	t.Parallel()
	var b *bubble
	s := setup{workers: 4, attempts: 3, backoff: time.Second, maxBackoff: time.Second, failures: 20}
	s.answer = func(string, int) sender.Result {
		b.breaker.Answered(time.Now()) // as by a call of another job
		return unavailable
	}
	inBubble(t, s, func(got *bubble) {
		b = got
		fault := b.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "jobs.dlq", Err: kerr.NotLeaderForPartition, Count: -1})
		b.produce("bad")
		b.until(time.Minute, "bad is called", func() bool { return len(b.called("bad")) == 3 })
		time.Sleep(time.Second)
		b.restart()
		fault.Remove()
		b.until(time.Minute, "the job is dead", func() bool { return b.dead() == 1 })
		if n := len(b.called("bad")); n != 3 {
			t.Errorf("got %d calls, want 3", n)
		}
	})
}

// The wait before each call is twice as long as the one before, up to the maximum,
// and is spread by half.
func TestTheBackoffDoubles(t *testing.T) {
	t.Parallel()
	const attempts, base, most = 8, 100 * time.Millisecond, 3 * time.Second
	var b *bubble
	s := setup{workers: 4, attempts: attempts, backoff: base, maxBackoff: most, failures: 20}
	s.answer = func(string, int) sender.Result {
		b.breaker.Answered(time.Now())
		return unavailable
	}
	inBubble(t, s, func(got *bubble) {
		b = got
		b.produce("bad")
		b.until(time.Minute, "the job is dead", func() bool { return b.dead() == 1 })
		calls := b.called("bad")
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
	s := setup{workers: 1, attempts: 3, backoff: time.Hour, maxBackoff: time.Hour, failures: 100}
	s.answer = func(id string, _ int) sender.Result {
		if strings.HasPrefix(id, "bad") {
			return unavailable
		}
		return accepted
	}
	inBubble(t, s, func(b *bubble) {
		b.produce(append(ids("bad", 10), ids("good", 10)...)...)
		begun := time.Now()
		b.until(time.Minute, "the good jobs are called", func() bool {
			return b.consumer.Status().Lanes[0].Asleep == 10 && len(b.called("good-9")) == 1
		})
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("the good jobs were called after %v", took)
		}
	})
}

// When the provider, having been down, answers again, the jobs that failed
// meanwhile are called at once, however long their wait was to be. A job whose failure
// is attributed to it waits on.
func TestWaitingRetriesAreWokenWhenTheProviderAnswersAgain(t *testing.T) {
	t.Parallel()
	down := false
	var b *bubble
	s := setup{workers: 4, attempts: 5, backoff: 10 * time.Minute, maxBackoff: 10 * time.Minute, failures: 5}
	s.answer = func(id string, nth int) sender.Result {
		if id == "bad" && nth == 1 {
			b.breaker.Answered(time.Now()) // as by a call of another job
			return unavailable
		}
		if down {
			return unavailable
		}
		return accepted
	}
	inBubble(t, s, func(got *bubble) {
		b = got
		set := func(to bool) {
			b.mu.Lock()
			defer b.mu.Unlock()
			down = to
		}
		b.produce("bad")
		b.until(time.Minute, "bad is called", func() bool { return len(b.called("bad")) == 1 })
		time.Sleep(time.Second)
		set(true)
		b.produce(ids("during", 5)...)
		time.Sleep(30 * time.Second)
		set(false)
		b.produce("after")
		b.until(time.Minute, "a job is called again", func() bool { return len(b.called("after")) == 1 })
		back := b.called("after")[0]
		time.Sleep(time.Second)
		for _, id := range ids("during", 5) {
			calls := b.called(id)
			if again := calls[len(calls)-1]; len(calls) < 2 || again.Sub(back) > latency+100*time.Millisecond {
				t.Errorf("%s: got %d calls, the last one %v after the provider was back, want it woken at once", id, len(calls), again.Sub(back))
			}
		}
		if n := len(b.called("bad")); n != 1 || b.dead() != 0 {
			t.Errorf("got %d calls of the job whose failure is its own and %d dead, want 1 and none", n, b.dead())
		}
	})
}

// An outage dead-letters nothing, whether or not other jobs come meanwhile, and
// also where jobs were in flight when it began.
func TestAnOutageIsAttributedToNoJob(t *testing.T) {
	t.Parallel()
	const jobs = 110 // so many that each has to be the probe more than once
	for _, more := range []bool{false, true} {
		down := false
		s := setup{workers: 8, attempts: 2, backoff: 200 * time.Millisecond, maxBackoff: 5 * time.Second, failures: 20}
		s.answer = func(string, int) sender.Result {
			if down {
				return unavailable
			}
			return accepted
		}
		inBubble(t, s, func(b *bubble) {
			set := func(to bool) {
				b.mu.Lock()
				defer b.mu.Unlock()
				down = to
			}
			b.produce(ids("job", jobs)...)
			b.until(time.Minute, "a job is called", func() bool { return len(b.called("job-100")) == 1 })
			set(true)
			for i := range 60 {
				time.Sleep(time.Second)
				if more {
					b.produce(ids("more"+string(rune('A'+i)), 2)...)
				}
			}
			set(false)
			want := int64(jobs)
			if more {
				want += 120
			}
			b.until(time.Minute, "all are settled", func() bool { return b.settled() == want })
			if b.dead() != 0 {
				t.Errorf("more jobs %v: got %d dead letters, want none", more, b.dead())
			}
		})
	}
}

// A wait that the provider asks for is kept: the job has no worker meanwhile, and its
// call does not count.
func TestRetryAfterHolds(t *testing.T) {
	t.Parallel()
	const after = 20 * time.Second
	s := setup{workers: 1, attempts: 1, backoff: time.Millisecond, maxBackoff: time.Millisecond, failures: 20}
	s.answer = func(id string, nth int) sender.Result {
		if id == "throttled" && nth == 1 {
			return sender.Result{Kind: sender.Throttled, Status: 429, RetryAfter: after}
		}
		return accepted
	}
	inBubble(t, s, func(b *bubble) {
		b.produce("throttled", "other")
		b.until(time.Minute, "all are settled", func() bool { return b.settled() == 2 })
		calls := b.called("throttled")
		if len(calls) != 2 || b.dead() != 0 {
			t.Fatalf("got %d calls and %d dead, want 2 and none", len(calls), b.dead())
		}
		if got := calls[1].Sub(calls[0]); got < after || got > after+after/10+time.Second {
			t.Errorf("got the second call after %v, want %v", got, after)
		}
		if other := b.called("other"); other[0].Sub(calls[0]) > time.Second {
			t.Errorf("the other job waited for %v", other[0].Sub(calls[0]))
		}
	})
}

// Many jobs that always fail stand in front of good ones. All good ones are called, and
// all bad ones end as dead letters, though no other job is left that could show that the
// provider is up.
func TestAWallOfFailingJobs(t *testing.T) {
	t.Parallel()
	const each = 300
	s := setup{workers: 64, attempts: 3, backoff: 200 * time.Millisecond, maxBackoff: 30 * time.Second, failures: 20}
	s.answer = func(id string, _ int) sender.Result {
		if strings.HasPrefix(id, "bad") {
			return unavailable
		}
		return accepted
	}
	inBubble(t, s, func(b *bubble) {
		b.produce(append(ids("bad", each), ids("good", each)...)...)
		b.until(time.Minute, "all are settled", func() bool { return b.settled() == 2*each })
		if b.dead() != each {
			t.Errorf("got %d dead letters, want %d", b.dead(), each)
		}
	})
}

// A job that a worker has when the breaker opens is not called, and goes before later
// jobs: it has not failed.
func TestAJobThatWasNotCalledStaysAhead(t *testing.T) {
	t.Parallel()
	s := setup{workers: 1, attempts: 3, backoff: time.Millisecond, maxBackoff: time.Millisecond, failures: 1}
	s.answer = func(string, int) sender.Result { return accepted }
	inBubble(t, s, func(b *bubble) {
		done, err := b.breaker.Allow()
		if err != nil {
			t.Fatal(err)
		}
		done(unavailable, breaker.ToProvider)
		time.Sleep(time.Second + time.Millisecond)
		probe, err := b.breaker.Allow() // so that the jobs find the breaker open
		if err != nil {
			t.Fatal(err)
		}
		b.produce(ids("job", 3)...)
		time.Sleep(5 * time.Second)
		if s := b.consumer.Status().Lanes[0]; s.InFlight != 0 || s.Asleep != 0 || len(b.called("job-0")) > 0 {
			t.Errorf("got %+v while the provider is down, want the jobs ready", s)
		}
		begun := time.Now()
		probe(sender.Result{Kind: sender.Accepted}, breaker.ToProvider)
		b.until(time.Minute, "all are settled", func() bool { return b.settled() == 3 })
		first := b.called("job-0")
		if len(first) != 1 || first[0].After(b.called("job-1")[0]) || first[0].Sub(begun) > time.Second {
			t.Errorf("got the first job called at %v and the second at %v, want the first at once", first, b.called("job-1"))
		}
	})
}

// Where as many jobs sleep as may, one that fails in an outage goes to a retry topic in
// the order none. In the other orders it sleeps.
func TestWhereSleepersAreFullAJobGoesToARetryTopic(t *testing.T) {
	t.Parallel()
	for order, want := range map[consumer.Order]int64{consumer.OrderNone: 1, consumer.OrderKey: 0} {
		s := setup{workers: 1, attempts: 3, backoff: 4 * time.Second, maxBackoff: 4 * time.Second, failures: 20, order: order, retryTopics: []time.Duration{time.Second}}
		s.answer = func(string, int) sender.Result { return unavailable }
		inBubble(t, s, func(b *bubble) {
			b.sleepersFull = true
			b.produce("job")
			b.until(time.Minute, "the job is called", func() bool { return len(b.called("job")) == 1 })
			time.Sleep(time.Second)
			if asleep := b.consumer.Status().Lanes[0].Asleep; b.records("jobs.retry.1s") != want || asleep != int(1-want) {
				t.Errorf("order %s: got %d in the retry topic and %d asleep, want %d and %d", order, b.records("jobs.retry.1s"), asleep, want, 1-want)
			}
		})
	}
}

// Jobs that failed on another node, and fail again on one where no later call was
// answered, are not dead-lettered: the provider may be down.
func TestAnOutageIsAttributedToNoJobOfAnotherNode(t *testing.T) {
	t.Parallel()
	var b *bubble
	down := false
	s := setup{workers: 4, attempts: 6, backoff: time.Second, maxBackoff: time.Second, failures: 20}
	s.answer = func(id string, _ int) sender.Result {
		if id != "bad" {
			return accepted
		}
		if !down {
			b.breaker.Answered(time.Now()) // as by a call of another job
		}
		return unavailable
	}
	inBubble(t, s, func(got *bubble) {
		b = got
		b.produce("bad")
		b.until(time.Minute, "bad is called", func() bool { return len(b.called("bad")) == 3 })
		b.stop()
		down = true
		b.start()
		b.breaker.Answered(time.Now()) // a call that was written before bad is handed out
		b.produce("good")
		b.until(time.Minute, "good is called", func() bool { return len(b.called("good")) == 1 })
		time.Sleep(5 * time.Minute)
		if b.dead() != 0 {
			t.Errorf("the job was dead-lettered in an outage, after %d calls", len(b.called("bad")))
		}
	})
}
