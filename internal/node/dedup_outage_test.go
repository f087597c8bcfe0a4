package node

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/configs"
	"dispatcher/internal/dedup"
	"dispatcher/internal/gathered"
	"dispatcher/sender"
)

// claiming is a setup with a dedup store. Without limits in Redis the limiter goes on while Redis is away.
func claiming(limits []configs.Limit) setup {
	s := gated(limits)
	s.claims, s.jobTimeout = true, 30*time.Second
	return s
}

// claimsBy counts the claims by how they were answered.
func (b *bubble) claimsBy() map[string]float64 {
	b.Helper()
	families, err := b.registry.Gather()
	b.must(err)
	return gathered.Families(families).Counters("dispatcher_dedup_claims_total", "result")
}

// outlive has Redis fail for longer than a job may be in flight, and demands that each job is called once all the same.
func (b *bubble) outlive(how outage, all []string) {
	b.Helper()
	b.redis.fail(how)
	time.Sleep(2 * b.jobTimeout)
	waiting := len(all) - len(callsOf("", b))
	if waiting == 0 {
		b.Error("got all jobs called, want some that wait for Redis")
	}
	b.redis.fail(0)
	b.until(time.Minute, "all are settled or dead", func() bool { return b.settled() == int64(len(all)) })
	if n := b.dead(); n > 0 {
		b.Errorf("got %d dead letters of %d jobs that waited for Redis, want none", n, waiting)
	}
	for _, id := range all {
		if n := len(b.called(id)); n != 1 {
			b.Errorf("got %d calls of job %s, want one", n, id)
		}
	}
}

// While Redis is away for longer than job_timeout, jobs wait for their claims. Each is called once when Redis is
// back. A claim that was made, and whose reply was lost, is in the way of no other delivery.
func TestJobsOutliveAnOutageOfTheDedupStore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits []configs.Limit
		how    outage
	}{
		"all calls fail":                {limitsOf(1000, 1)[:1], unreached},
		"all replies are lost":          {limitsOf(1000, 1)[:1], unheard},
		"the store's calls fail":        {nil, unreached},
		"replies to the store are lost": {nil, unheard},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, claiming(c.limits), func(b *bubble) {
				all := ids("j", 300)
				b.produce(all...)
				b.until(time.Minute, "some are called", func() bool { return len(callsOf("", b)) > 0 })
				b.outlive(c.how, all)
				for result, n := range b.claimsBy() {
					if result != dedup.Granted.String() && n > 0 {
						t.Errorf("got %v claims that were answered with %s, want none", n, result)
					}
				}
			})
		})
	}
}

// A job that another delivery had claimed waits for the outage's end, too.
func TestAJobThatIsClaimedOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	inBubble(t, claiming(nil), func(b *bubble) {
		var running sync.WaitGroup
		ctx, stop := context.WithCancel(b.Context())
		other := b.dedupStore(prometheus.NewRegistry())
		running.Go(func() { _ = other.Run(ctx) })
		_, err := other.Open("j-0").Claim(ctx, time.Time{})
		b.must(err)
		stop()
		running.Wait()
		b.produce("j-0")
		b.until(time.Minute, "the job finds itself claimed", func() bool { return b.claimsBy()[dedup.Busy.String()] > 0 })
		b.outlive(unreached, []string{"j-0"})
	})
}

// A call that is accepted late in a drain is settled before the drain ends, also where Redis does not take its record: else it would
// be delivered again, and nobody would know that it was accepted.
func TestAnAcceptedCallIsSettledInADrainWithoutRedis(t *testing.T) {
	t.Parallel()
	answers := []time.Duration{time.Second, 3 * time.Second, 5 * time.Second, 6 * time.Second} // of a drain of seven
	outages := map[string]outage{"refused": unreached, "silent": silent}
	for _, how := range slices.Sorted(maps.Keys(outages)) {
		for _, answered := range answers {
			t.Run(how+" "+answered.String(), func(t *testing.T) {
				t.Parallel()
				acceptedInADrain(t, outages[how], answered)
			})
		}
	}
}

// acceptedInADrain has a call accepted so long after a drain began, with Redis failing from the drain's begin on.
func acceptedInADrain(t *testing.T, how outage, answered time.Duration) {
	t.Helper()
	inBubble(t, setup{claims: true, workers: 4, attempts: 3, failures: 20}, func(b *bubble) {
		b.produce("late")
		d, s := b.take(), b.slot()
		stopped := make(chan struct{})
		b.handle(callerFunc(func(ctx context.Context, permit sender.Permit) sender.Result {
			if _, err := permit(ctx); err != nil {
				return sender.Result{Kind: sender.NotSent, Err: err}
			}
			wrote := time.Now()
			b.redis.fail(how)
			go func() { defer close(stopped); b.stop() }()
			time.Sleep(answered)
			return sender.Result{Kind: sender.Accepted, Status: 200, WroteAt: wrote}
		}), d, s)
		<-stopped
		if got := b.settled(); got != 1 {
			t.Errorf("got offset %d committed, want 1: the call was accepted", got)
		}
	})
}
