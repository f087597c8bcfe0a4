package throttle

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// One node alone uses its limit, however far away Redis is, as long as the
// lateness leaves room for the uncertainty of its clock.
func TestAFarRedisCostsNoRate(t *testing.T) {
	for _, rtt := range []time.Duration{time.Millisecond, 15 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond} {
		t.Run(fmt.Sprint(rtt), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := contract(300)
				c.Guard, c.Lateness = 100*time.Millisecond, 90*time.Millisecond
				l := begin(t, c, newModel().local("n", rtt), func() int { return 1000 })
				slots := 0
				for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
					s, err := l.Next(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if s.Wait(t.Context()) == nil {
						slots++
					}
				}
				share := float64(slots) / (300 * (10 - 0.8)) // less the fence and the look of the start
				if share < 0.95*c.Share() {
					t.Errorf("used %.3f of the cap, want %.3f", share, c.Share())
				}
			})
		})
	}
}
