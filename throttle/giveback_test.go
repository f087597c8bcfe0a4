package throttle

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever is taken, given back and left, each slot is with one caller or held,
// those that are held are in order, and nobody waits while one is held.
func TestASlotThatIsGivenBackGoesToOneCaller(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_000_000, 0)
		var l line
		var out []Slot          // with callers
		var waiting []chan Slot // places of callers who have got nothing yet
		made := 0
		hear := func() {
			var still []chan Slot
			for _, place := range waiting {
				select {
				case s := <-place:
					out = append(out, s)
				default:
					still = append(still, place)
				}
			}
			waiting = still
		}
		t.Repeat(map[string]func(*rapid.T){
			"book": func(t *rapid.T) {
				var some []Slot
				for range rapid.IntRange(1, 4).Draw(t, "slots") {
					made++
					at := now.Add(time.Duration(made) * time.Millisecond)
					some = append(some, Slot{NotBefore: at, NotAfter: at.Add(time.Hour)})
				}
				l.add(some, now)
				hear()
			},
			"take": func(t *rapid.T) {
				if s, place := l.take(now, rapid.Bool().Draw(t, "again")); place != nil {
					waiting = append(waiting, place)
				} else {
					out = append(out, s)
				}
			},
			"give back": func(t *rapid.T) {
				if len(out) == 0 {
					t.Skip("nothing is out")
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
				s := out[i]
				out = append(out[:i], out[i+1:]...)
				l.giveBack(s, now)
				hear()
			},
			"": func(t *rapid.T) {
				seen := map[time.Time]bool{}
				for _, s := range append(append([]Slot{}, out...), l.held...) {
					if seen[s.NotBefore] {
						t.Fatalf("the slot of %v is there twice", s.NotBefore)
					}
					seen[s.NotBefore] = true
				}
				if len(seen) != made {
					t.Fatalf("got %d slots, want %d", len(seen), made)
				}
				for i := 1; i < len(l.held); i++ {
					if l.held[i].NotBefore.Before(l.held[i-1].NotBefore) {
						t.Fatalf("slots are held out of order: %v", l.held)
					}
				}
				if len(waiting) > 0 && len(l.held) > 0 {
					t.Fatalf("%d wait while %d slots are held", len(waiting), len(l.held))
				}
			},
		})
	})
}
