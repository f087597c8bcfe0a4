package node

import (
	"testing"
	"time"

	"dispatcher/configs"
	"dispatcher/consumer"
)

// rarely is a setup in which connections grow old between two slots.
func rarely(most, burst int64, window time.Duration) setup {
	l := limitsOf(most, 1)[:1]
	l[0].Window, l[0].Burst = window, burst
	return setup{limits: []configs.Limit{l[0]}, workers: 64, attempts: 10, failures: 20, order: consumer.OrderNone, backoff: 200 * time.Millisecond, maxBackoff: 30 * time.Second}
}

// Where slots are rare, a job has its connection before its slot as well, so that no slot is lost. It is opened
// when the slot is near: the provider closes one that waits for a slot.
func TestNoRareSlotIsLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		most, burst int64
		window      time.Duration
		dial, keeps time.Duration
		jobs        int
	}{
		"one a minute":                 {most: 1, burst: 1, window: time.Minute, dial: 30 * time.Millisecond, jobs: 2},
		"one in two minutes, far away": {most: 1, burst: 1, window: 2 * time.Minute, dial: 250 * time.Millisecond, keeps: time.Minute, jobs: 3},
		"several at a time":            {most: 20, burst: 5, window: 10 * time.Minute, dial: 30 * time.Millisecond, jobs: 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, rarely(c.most, c.burst, c.window), func(b *bubble) {
				p := &pipeProvider{dial: c.dial, keeps: c.keeps, latency: latency}
				h := b.sender(p)
				defer h.Close()
				b.dispatch(h, h, b.workers)
				time.Sleep(4 * time.Minute) // the burst is there, and the node has no connection
				begin := time.Now()
				b.writeMany(c.jobs)
				for b.settled() < int64(c.jobs) && time.Since(begin) < 20*time.Minute {
					time.Sleep(time.Second)
				}
				p.mu.Lock()
				defer p.mu.Unlock()
				for i, call := range p.calls {
					// Its slot is a second late at most, each time.
					behind := max(0, i+1-int(c.burst))
					if got, most := call.Sub(begin), time.Duration(behind)*(b.limiter.Spacing()+time.Second)+time.Second; got > most {
						t.Errorf("got call %d after %v, want it within %v", i+1, got, most)
					}
				}
				if len(p.calls) != c.jobs || b.dead() != 0 {
					t.Errorf("got %d calls and %d dead letters, want %d and none", len(p.calls), b.dead(), c.jobs)
				}
			})
		})
	}
}

// A job that may not wait for long is called in the first slot.
func TestARareSlotComesBeforeTheJobTimeout(t *testing.T) {
	t.Parallel()
	s := rarely(1, 1, time.Minute)
	s.jobTimeout = 30 * time.Second
	inBubble(t, s, func(b *bubble) {
		p := &pipeProvider{dial: 30 * time.Millisecond, latency: latency}
		h := b.sender(p)
		defer h.Close()
		b.dispatch(h, h, b.workers)
		time.Sleep(2 * time.Minute)
		b.writeMany(1)
		time.Sleep(time.Minute)
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.calls) != 1 || b.dead() != 0 {
			t.Errorf("got %d calls and %d dead letters, want one and none", len(p.calls), b.dead())
		}
	})
}
