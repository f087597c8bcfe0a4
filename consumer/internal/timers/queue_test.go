package timers_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dispatcher/consumer/internal/timers"
)

// item knows its place, and its time.
type item struct {
	at    time.Time
	place int
}

// Placed implements [timers.Item].
func (i *item) Placed(at int) { i.place = at }

// Whatever is set, ended and removed: each item is at the place that it knows, and the one that is due first goes first.
func TestEachItemKnowsItsPlace(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var q timers.Queue[*item]
		var all []*item
		begin := time.Unix(1000, 0)
		drawTime := func(t *rapid.T) time.Time {
			return begin.Add(time.Duration(rapid.IntRange(0, 50).Draw(t, "at")) * time.Millisecond)
		}
		earliest := func() time.Time {
			return slices.MinFunc(all, func(x, y *item) int { return x.at.Compare(y.at) }).at
		}
		gone := func(which func(*item) bool) { all = slices.DeleteFunc(all, which) }
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				one := &item{at: drawTime(t), place: -1}
				want := len(all) == 0 || one.at.Before(earliest())
				if got := q.Set(one.at, one); got != want {
					t.Fatalf("got that it is the first: %v, want %v", got, want)
				}
				all = append(all, one)
			},
			"due": func(t *rapid.T) {
				now := drawTime(t)
				want := len(all) > 0 && !earliest().After(now)
				one, ok := q.Due(now)
				if ok != want || ok && !one.at.Equal(earliest()) {
					t.Fatalf("got %+v, %v at %v, want one of the earliest: %v", one, ok, now, want)
				}
				gone(func(other *item) bool { return other == one })
			},
			"end": func(t *rapid.T) {
				if len(all) == 0 {
					return
				}
				one := rapid.SampledFrom(all).Draw(t, "which")
				if got := q.End(one.place); got != one {
					t.Fatalf("got %+v at place %d, want %+v", got, one.place, one)
				}
				gone(func(other *item) bool { return other == one })
			},
			"remove": func(t *rapid.T) {
				from := drawTime(t)
				which := func(one *item) bool { return one.at.Before(from) && one.at.Nanosecond()%2_000_000 == 0 }
				removed := q.Remove(which)
				if !slices.IsSortedFunc(removed, func(x, y *item) int { return x.at.Compare(y.at) }) || slices.ContainsFunc(removed, func(one *item) bool { return !which(one) }) {
					t.Fatalf("got %v removed, want those before %v in the order of their times", removed, from)
				}
				gone(which)
			},
			"": func(t *rapid.T) {
				if q.Len() != len(all) {
					t.Fatalf("got %d items, want %d", q.Len(), len(all))
				}
				for one := range q.All() {
					if got, at := q.At(one.place); got != one || !at.Equal(one.at) {
						t.Fatalf("got %+v at %v at the place of %+v, want itself", got, at, one)
					}
				}
				want := time.Hour
				if len(all) > 0 {
					want = min(max(earliest().Sub(begin), 0), time.Second)
				}
				if got := q.Wait(begin); got != want {
					t.Fatalf("got a wait of %v, want %v", got, want)
				}
			},
		})
	})
}

// A step of the clock is noticed within a second, however far away the next item is.
func TestNoWaitIsLongerThanASecond(t *testing.T) {
	t.Parallel()
	var q timers.Queue[*item]
	now := time.Unix(1000, 0)
	q.Set(now.Add(time.Hour), new(item))
	if got := q.Wait(now); got != time.Second {
		t.Errorf("got a wait of %v, want a second", got)
	}
	if got := q.Wait(now.Add(2 * time.Hour)); got != 0 {
		t.Errorf("got a wait of %v for one that is due, want none", got)
	}
}
