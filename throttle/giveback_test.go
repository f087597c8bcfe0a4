package throttle

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever is taken, given back, refused and left, each slot is with one caller or
// held; those that are held are in order, and nobody waits while one is held. A
// refusal does not outlast the slots by more than it may.
func TestASlotThatIsGivenBackGoesToOneCaller(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_000_000, 0)
		var l waitQueue
		var out []Slot          // with callers
		var waiting []chan Slot // places of callers who have got nothing yet
		made, last := 0, now    // slots, and when the last of them is over
		got := func(s Slot) {
			if !s.full {
				out = append(out, s)
			}
		}
		hear := func() {
			var still []chan Slot
			for _, place := range waiting {
				select {
				case s := <-place:
					got(s)
				default:
					still = append(still, place)
				}
			}
			waiting = still
		}
		reserve := func(n int) {
			var some []Slot
			for range n {
				made++
				at := now.Add(time.Duration(made) * time.Millisecond)
				last = at.Add(time.Hour)
				some = append(some, Slot{NotBefore: at, NotAfter: last})
			}
			l.add(some, now)
		}
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) {
				reserve(rapid.IntRange(1, 4).Draw(t, "slots"))
				hear()
			},
			"take": func(t *rapid.T) {
				if s, place := l.take(now, rapid.Bool().Draw(t, "again")); place != nil {
					waiting = append(waiting, place)
				} else {
					got(s)
				}
			},
			"refuse": func(t *rapid.T) {
				l.refuse(int64(rapid.IntRange(1, 3).Draw(t, "refused")), now)
				hear()
			},
			"leave with a slot": func(t *rapid.T) {
				if len(waiting) == 0 {
					t.Skip("nobody waits")
				}
				reserve(1) // who waits first has it, and leaves before it hears
				i := rapid.IntRange(0, len(waiting)-1).Draw(t, "who")
				l.leave(waiting[i], now)
				waiting = append(waiting[:i], waiting[i+1:]...)
				hear()
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
				for _, s := range l.held {
					if s.full && s.NotAfter.After(last.Add(refusalLasts)) {
						t.Fatalf("a refusal lasts for %v after the last slot", s.NotAfter.Sub(last))
					}
				}
				seen := map[time.Time]bool{}
				for _, s := range append(slices.Clone(out), l.held...) {
					if seen[s.NotBefore] && !s.full {
						t.Fatalf("the slot of %v is there twice", s.NotBefore)
					}
					seen[s.NotBefore] = true
				}
				delete(seen, time.Time{}) // refusals
				if len(seen) != made {
					t.Fatalf("got %d slots, want %d", len(seen), made)
				}
				free := slices.DeleteFunc(slices.Clone(l.held), func(s Slot) bool { return s.full })
				if !slices.IsSortedFunc(free, func(a, b Slot) int { return a.NotBefore.Compare(b.NotBefore) }) {
					t.Fatalf("slots are held out of order: %v", free)
				}
				if len(waiting) > 0 && len(free) > 0 {
					t.Fatalf("%d wait while %d slots are held", len(waiting), len(free))
				}
			},
		})
	})
}
