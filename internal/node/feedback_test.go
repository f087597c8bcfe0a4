package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"dispatcher/sender"
	"dispatcher/throttle/phase"
)

// choosy is a provider that accepts so many calls in any second, and asks for three seconds of rest with each other one.
type choosy struct {
	accepts  int
	accepted []time.Time
	refused  []time.Time
}

func (c *choosy) answer(string, int) sender.Result {
	now := time.Now()
	if since(c.accepted, now.Add(-time.Second)) >= c.accepts {
		c.refused = append(c.refused, now)
		return sender.Result{Kind: sender.Throttled, Status: 429, RetryAfter: 3 * time.Second, Err: errors.New("too many requests")}
	}
	c.accepted = append(c.accepted, now)
	return accepted
}

// since counts the times behind at.
func since(all []time.Time, at time.Time) (n int) {
	for _, t := range all {
		if t.After(at) {
			n++
		}
	}
	return n
}

// A provider that accepts less than the cap gets about what it accepts, and its refusals use up no attempt of a job.
func TestANodeFollowsItsProvider(t *testing.T) {
	t.Parallel()
	const jobs, seconds = 6000, 20
	p := &choosy{accepts: 200}
	s := gated(limitsOf(300, 1)[:1])
	s.attempts, s.answer = 1, p.answer
	inBubble(t, s, func(b *bubble) {
		b.writeMany(jobs)
		b.until(time.Minute, "the first call", func() bool { return len(b.called("0")) > 0 })
		time.Sleep(10 * time.Second)
		steady := time.Now()
		time.Sleep(seconds * time.Second)
		b.mu.Lock()
		accepted, refused := since(p.accepted, steady), since(p.refused, steady)
		b.mu.Unlock()
		t.Logf("%.1f accepted a second and %.2f %% refused, from ten seconds on; %s", float64(accepted)/seconds, 100*float64(refused)/float64(accepted+refused), b.limiter.State().Note())
		if accepted < 95*200*seconds/100 || refused*100 > accepted+refused {
			t.Errorf("got %d calls accepted and %d refused in %d s, want 95 %% of %d and one in a hundred", accepted, refused, seconds, 200*seconds)
		}
		if s := b.limiter.State(); s.Phase != phase.Running || s.Slowdown.Share(s.Settings.Contract) > 0.75 {
			t.Errorf("got phase %s and %+v, want a slowdown to about two thirds", s.Phase, s.Slowdown)
		}
		b.until(time.Minute, "all are settled", func() bool { return b.settled() == jobs })
		if dead := b.dead(); dead > 0 || len(p.accepted) != jobs {
			t.Errorf("got %d dead letters and %d jobs accepted, want none and %d", dead, len(p.accepted), jobs)
		}
	})
}

// A provider that refuses one recipient says so. No node calls that recipient until the time that it names; all other jobs go
// at the rate of the account.
func TestARefusedValueWaitsOnAllNodes(t *testing.T) {
	t.Parallel()
	const hot, others, rest = 40, 3000, 5 * time.Second
	var refusedAt time.Time
	s := gated(limitsOf(300, 10))
	s.limits[1].ThrottledAs = "14107"
	s.partitions, s.attempts = 6, 1
	s.answer = func(id string, _ int) sender.Result {
		if !strings.HasPrefix(id, "hot-") || !refusedAt.IsZero() && time.Since(refusedAt) > rest/2 {
			return accepted
		}
		if refusedAt.IsZero() {
			refusedAt = time.Now()
		}
		return sender.Result{Kind: sender.Throttled, Status: 429, Limit: "14107", RetryAfter: rest, Err: errors.New("too many requests")}
	}
	inBubble(t, s, func(b *bubble) {
		second := b.another()
		defer func() { second.stop() }()
		nodes := []*bubble{b, second}
		b.until(time.Minute, "both have partitions", func() bool {
			return len(b.consumer.Status().Partitions) == 3 && len(second.consumer.Status().Partitions) == 3
		})
		b.write(backlog(hot, others)...)
		b.until(time.Minute, "all are settled", func() bool { return b.settledOf() == hot+others })
		// Slots that are out when the provider refuses the first call are used; then nobody calls for as long as it asked.
		const out = 500 * time.Millisecond
		calls := callsOf("hot", nodes...)
		for _, at := range calls {
			if wait := at.Sub(refusedAt); wait > out && wait < rest {
				t.Errorf("got a call of the value %v behind the refused one, want none before %v", wait, rest)
			}
		}
		if before := len(calls) - since(calls, refusedAt.Add(out)); before > 5 {
			t.Errorf("got %d calls of the value before the nodes knew, want those of half a second", before)
		}
		if sooner := since(callsOf("", nodes...), refusedAt) - since(callsOf("", nodes...), refusedAt.Add(rest)); sooner < 285*int(rest/time.Second) {
			t.Errorf("got %d calls of others in %v, want the account's 300 a second", sooner, rest)
		}
		if s := b.limiter.State(); !s.Slowdown.IsZero() {
			t.Errorf("got %+v, want no slowdown of the fleet", s.Slowdown)
		}
		if dead := b.dead(); dead > 0 {
			t.Errorf("got %d dead letters, want none", dead)
		}
	})
}
