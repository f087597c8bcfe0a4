package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/sender"
)

func (b *bubble) sender(p *pipeProvider) *sender.Sender {
	b.Helper()
	h, err := sender.New(sender.Options{Config: sender.Config{URL: "http://provider.test/send"}, Dial: p.DialContext})
	b.must(err)
	return h
}

// run calls a provider through a pacer and workers, until count jobs are settled.
func (b *bubble) run(h *sender.Sender, workers, count int) {
	b.Helper()
	b.dispatch(h, h, workers)
	b.until(time.Minute, "all jobs are settled", func() bool { return b.settled() == int64(count) })
}

// Calls that need a connection each use as much of the cap as calls on kept
// connections. Dials take no place: more of them than there are places may be under
// way.
func TestAConnectionComesFirstAndTheSlotLast(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate   int
		dial   time.Duration
		jitter time.Duration
		once   bool
		share  float64
		most   int // dials at once: half more than the rate, the time of a dial and a block of 20 ms ask for
	}{
		{rate: 400, dial: 20 * time.Millisecond, jitter: 60 * time.Millisecond, once: true, share: 0.95, most: 60},
		{rate: 400, dial: 40 * time.Millisecond, once: true, share: 0.95, most: 36},
		{rate: 200, dial: 450 * time.Millisecond, once: true, share: 0.95, most: 120},
		{rate: 400, dial: 40 * time.Millisecond, share: 0.985, most: 36},
		{rate: 200, dial: 450 * time.Millisecond, share: 0.985, most: 120},
		{rate: 400, share: 0.985, most: 10},
	} {
		t.Run(fmt.Sprintf("%d a second, %v to %v, one call each: %v", c.rate, c.dial, c.dial+c.jitter, c.once), func(t *testing.T) {
			t.Parallel()
			atRate(t, int64(c.rate), func(b *bubble) {
				p := &pipeProvider{dial: c.dial, jitter: c.jitter, latency: 50 * time.Millisecond, once: c.once}
				h := b.sender(p)
				defer h.Close()
				jobs := 10 * c.rate
				b.writeMany(jobs)
				b.run(h, 256, jobs)
				share := p.share(c.rate, c.rate/2)
				t.Logf("%.3f of the cap, %d dials for %d calls, %d at once", share, p.dials, len(p.calls), p.most)
				if len(p.calls) != jobs || share < c.share {
					t.Errorf("got %d calls and %.3f of the cap, want %d and at least %.3f", len(p.calls), share, jobs, c.share)
				}
				if p.most > c.most {
					t.Errorf("got %d dials at once, want at most %d", p.most, c.most)
				}
				// What is kept is dialled once: as many as are in use, and as were on their way.
				if most := jobs / 10; !c.once && p.dials > most {
					t.Errorf("got %d dials for %d calls, want at most %d", p.dials, jobs, most)
				}
			})
		})
	}
}

// An outage in which no connection can be opened opens the breaker, which lets one
// dial through at a time, and dead-letters nothing. When it is over, every job is sent
// once.
func TestAnOutageOfDialsIsSeen(t *testing.T) {
	t.Parallel()
	for name, dial := range map[string]time.Duration{"refused at once": 0, "after a while": 500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const jobs = 300
			atRate(t, 100, func(b *bubble) {
				p := &pipeProvider{dial: dial, latency: 10 * time.Millisecond}
				p.down.Store(true)
				h := b.sender(p)
				defer h.Close()
				b.writeMany(jobs)
				go func() {
					time.Sleep(10 * time.Second)
					if b.breaker.Closed() {
						t.Error("the breaker is closed, and nothing answers")
					}
					before := p.dialed()
					time.Sleep(20 * time.Second)
					// A probe a second, which takes as long as the dial; the pacer's own is one more.
					if n := p.dialed() - before; n < 10 || n > 40 {
						t.Errorf("got %d dials in 20 s of an outage, want one probe at a time", n)
					}
					p.down.Store(false)
				}()
				b.run(h, 64, jobs)
				if len(p.calls) != jobs || b.dead() != 0 {
					t.Errorf("got %d calls and %d dead letters, want %d and none", len(p.calls), b.dead(), jobs)
				}
			})
		})
	}
}

// One ill backend of two fails a call for each of its connections, and no more.
func TestAnIllBackendTakesFewCalls(t *testing.T) {
	t.Parallel()
	const rate, jobs = 400, 4000
	inBubble(t, setup{rate: rate, failures: 20, attempts: 10, backoff: 100 * time.Millisecond, maxBackoff: time.Second, order: consumer.OrderNone}, func(b *bubble) {
		p := &pipeProvider{latency: 50 * time.Millisecond, ill: true}
		h := b.sender(p)
		defer h.Close()
		b.writeMany(jobs)
		b.dispatch(h, h, 256)
		b.until(5*time.Minute, "all jobs are settled", func() bool { return b.settled() == jobs })
		share := p.share(rate, rate/2)
		t.Logf("%.3f of the cap, %d calls failed, %d dials", share, p.failed, p.dials)
		if b.dead() != 0 || share < 0.9 {
			t.Errorf("got %d dead letters and %.3f of the cap from the healthy backend, want none and at least 0.9", b.dead(), share)
		}
	})
}

// A node without jobs opens no connection, and one with few opens few.
func TestNoMoreConnectionsThanJobs(t *testing.T) {
	t.Parallel()
	for _, jobs := range []int{1, 3} {
		atRate(t, 400, func(b *bubble) {
			p := &pipeProvider{dial: 200 * time.Millisecond, latency: 10 * time.Millisecond}
			h := b.sender(p)
			defer h.Close()
			b.writeMany(jobs)
			b.run(h, 64, jobs)
			time.Sleep(10 * time.Second)
			if n := p.dialed(); n > jobs {
				t.Errorf("got %d connections for %d jobs", n, jobs)
			}
		})
	}
}

// A job without a connection frees its place before it opens one.
func TestDiallingTakesNoPlace(t *testing.T) {
	t.Parallel()
	atRate(t, 10, func(b *bubble) {
		b.writeMany(1)
		d, s := b.take(), b.ahead()
		b.handle(callerFunc(func(ctx context.Context, permit sender.Permit) sender.Result {
			if len(b.places) != 0 {
				t.Errorf("got %d places taken while a connection is opened, want none", len(b.places))
			}
			_, err := permit(ctx)
			b.must(err)
			return sender.Result{Kind: sender.Accepted, WroteAt: time.Now()}
		}), d, s)
		b.until(time.Minute, "it is settled", func() bool { return b.settled() == 1 })
	})
}
