package provider

import (
	"testing"
	"testing/synctest"
	"time"
)

// A counter says of the pieces what one judge says of the whole, and the log does not grow.
func TestACounterJudgesPieceByPiece(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		contract := Contract{Window: time.Second, Caps: []CapFrom{{Cap: 400}}}
		p := New(Options{Guard: -1})
		c := NewCounter(p, contract)
		var all []Arrival
		most := 0
		for i := range 60_000 { // two minutes; a call in 500 comes too early, so that some windows are over the cap
			if i%500 != 0 {
				time.Sleep(2500 * time.Microsecond)
			}
			a := Arrival{At: time.Since(p.epoch), Key: "job", Status: 200}
			if i%100 == 0 {
				a.Status = 503
			}
			all = append(all, a)
			p.log.add(stamp{at: a.At}, a.Key, a.Status, 0)
			if i%777 == 0 {
				c.Count()
				most = max(most, p.Count())
			}
		}
		got, want := c.Count(), Judge(all, nil, contract)
		if want.OverCount == 0 {
			t.Fatal("got no broken window, want some")
		}
		if got != (Counts{Calls: 60_000, Units: 60_000, Failed: 600, MaxInWindow: want.MaxInWindow, OverCount: want.OverCount}) {
			t.Errorf("got %+v, want 60000 calls, 600 failed, %d in the fullest window, %d over", got, want.MaxInWindow, want.OverCount)
		}
		if most > 3*chunkSize {
			t.Errorf("got %d arrivals in the log at once, want %d at most", most, 3*chunkSize)
		}
	})
}

// A stall takes the windows out that overlap it, once.
func TestACounterCountsStallsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Guard: -1})
		c := NewCounter(p, Contract{Window: time.Second, Caps: []CapFrom{{Cap: 1}}})
		time.Sleep(10 * time.Second)
		p.watch.note(9*time.Second, 10*time.Second-time.Millisecond, time.Millisecond)
		p.log.add(stamp{at: 9500 * time.Millisecond, late: true}, "a", 200, 0)
		p.log.add(stamp{at: 9500 * time.Millisecond, late: true}, "b", 200, 0)
		for range 92 {
			c.Count()
			time.Sleep(time.Second)
		}
		// 100 s have passed but for a window and a second, and windows that begin in two of them overlap the stall.
		got := c.Count()
		if want := 2.0 / 100; got.Unjudged != want || got.OverCount != 0 || got.MaxInWindow != 0 {
			t.Errorf("got %+v, want %v unjudged, and no judged window", got, want)
		}
		if n := len(p.Stalls()); n != 0 {
			t.Errorf("got %d stalls that are kept, want none", n)
		}
	})
}
