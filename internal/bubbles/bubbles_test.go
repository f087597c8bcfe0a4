package bubbles

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// Goroutines that find timers due at the same instant run them on their own threads.
// With synctest.Test alone this test kills its process under the race detector.
func TestTimersThatAreDueAtOnce(t *testing.T) {
	for range 100 {
		Test(t, func(*testing.T) {
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for range 200 {
						due := time.NewTimer(time.Millisecond)
						time.AfterFunc(2*time.Millisecond, func() {})
						time.Sleep(2 * time.Millisecond)
						<-due.C
					}
				})
			}
			all.Wait()
		})
	}
}

// A bubble that ends leaves one beside it as it is, and the last one gives the
// processors back.
func TestBubblesBesideEachOther(t *testing.T) {
	processors := runtime.GOMAXPROCS(0)
	t.Run("all", func(t *testing.T) {
		for range 4 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for range 100 {
					Test(t, func(*testing.T) { time.Sleep(time.Millisecond) })
				}
			})
		}
	})
	if now := runtime.GOMAXPROCS(0); now != processors {
		t.Errorf("%d processors behind the last bubble, want the %d from before the first", now, processors)
	}
}
