package throttle

import (
	"fmt"
	"testing"
	"time"

	"dispatcher/internal/bubbles"
)

// One node alone uses its limit, however far away Redis is, as long as the
// lateness leaves room for the uncertainty of its clock.
func TestAFarRedisCostsNoRate(t *testing.T) {
	for _, rtt := range []time.Duration{time.Millisecond, 15 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond} {
		t.Run(fmt.Sprint(rtt), func(t *testing.T) {
			bubbles.Test(t, func(t *testing.T) {
				c := contract(300)
				c.Guard, c.Lateness = 100*time.Millisecond, 90*time.Millisecond
				l := callerOf(begin(t, c, newModel().local("n", rtt)), 1000)
				slots := 0
				for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
					s, err := l.next(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if s.Wait(t.Context()) == nil {
						slots++
					}
				}
				share := float64(slots) / (300 * (10 - 0.8)) // less the cooldown and the poll of the start
				if share < 0.95*c.Share() {
					t.Errorf("used %.3f of the cap, want %.3f", share, c.Share())
				}
			})
		})
	}
}

// A node that is stopped loses the slots that it holds. Where the fleet chose a longer
// lateness, because its hosts stop, a node holds few, and still uses its limit.
func TestAFleetThatStallsHoldsLess(t *testing.T) {
	most := func(lateness time.Duration) (held int, share float64) {
		bubbles.Test(t, func(t *testing.T) {
			c := autoContract(time.Second).WithLateness(lateness)
			l := callerOf(begin(t, c, newModel().local("n", time.Millisecond)), 1000)
			slots := 0
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
				s, err := l.next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				held = max(held, int(l.unused.Load()))
				if s.Wait(t.Context()) == nil {
					slots++
				}
			}
			share = float64(slots) / (float64(c.Cap) * (10 - 0.8)) / c.Share()
		})
		return held, share
	}
	usual, shareUsual := most(3 * time.Millisecond)
	few, shareFew := most(20 * time.Millisecond)
	if few > usual/2 || min(shareUsual, shareFew) < 0.95 {
		t.Errorf("held %d slots at most with a lateness of 3ms and %d with 20ms, and used %.3f and %.3f of what can be used",
			usual, few, shareUsual, shareFew)
	}
}
