package node

import (
	"errors"
	"testing"
	"time"

	"dispatcher/sender"
	"dispatcher/throttle"
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
		if s := b.limiter.State(); s.Phase != throttle.PhaseRunning || s.Slowdown.Share(s.Settings.Contract) > 0.75 {
			t.Errorf("got phase %s and %+v, want a slowdown to about two thirds", s.Phase, s.Slowdown)
		}
		b.until(time.Minute, "all are settled", func() bool { return b.settled() == jobs })
		if dead := b.dead(); dead > 0 || len(p.accepted) != jobs {
			t.Errorf("got %d dead letters and %d jobs accepted, want none and %d", dead, len(p.accepted), jobs)
		}
	})
}
