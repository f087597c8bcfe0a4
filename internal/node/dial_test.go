package node

import (
	"fmt"
	"testing"
	"time"

	"dispatcher/sender"
)

// Calls that need a connection each use as much of the cap as those on
// connections that are kept, and dials take no place at the wire: more of them
// than there are places may be under way.
func TestAConnectionComesFirstAndTheSlotLast(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate   int
		dial   time.Duration
		jitter time.Duration
		once   bool
		share  float64
		most   int // dials at once: a third more than the rate and the time of a dial ask for
	}{
		{rate: 400, dial: 20 * time.Millisecond, jitter: 60 * time.Millisecond, once: true, share: 0.95, most: 60},
		{rate: 400, dial: 40 * time.Millisecond, once: true, share: 0.95, most: 28},
		{rate: 200, dial: 450 * time.Millisecond, once: true, share: 0.95, most: 120},
		{rate: 400, dial: 40 * time.Millisecond, share: 0.985, most: 28},
		{rate: 200, dial: 450 * time.Millisecond, share: 0.985, most: 120},
		{rate: 400, share: 0.985, most: 10},
	} {
		t.Run(fmt.Sprintf("%d a second, %v to %v, one call each: %v", c.rate, c.dial, c.dial+c.jitter, c.once), func(t *testing.T) {
			t.Parallel()
			inWorld(t, int64(c.rate), func(w *world) {
				far := &faraway{dial: c.dial, jitter: c.jitter, latency: 50 * time.Millisecond, once: c.once}
				h, err := sender.New(sender.Options{Config: sender.Config{URL: "http://provider.test/send"}, Dial: far.DialContext})
				w.must(err)
				defer h.Close()
				jobs := 10 * c.rate
				w.writeMany(jobs)
				w.run(h, 256, jobs)
				share := far.share(c.rate, c.rate/2)
				t.Logf("%.3f of the cap, %d dials for %d calls, %d at once", share, far.dials, len(far.calls), far.most)
				if len(far.calls) != jobs || share < c.share {
					t.Errorf("got %d calls and %.3f of the cap, want %d and at least %.3f", len(far.calls), share, jobs, c.share)
				}
				if far.most > c.most {
					t.Errorf("got %d dials at once, want at most %d", far.most, c.most)
				}
				// What is kept is dialled once: as many as are in use, and as were on their way.
				if most := jobs / 10; !c.once && far.dials > most {
					t.Errorf("got %d dials for %d calls, want at most %d", far.dials, jobs, most)
				}
			})
		})
	}
}
