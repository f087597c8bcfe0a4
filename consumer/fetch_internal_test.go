package consumer

import (
	"testing"
	"time"
)

// The hub may say that there is room again before the fetcher has heard that
// there was none.
func TestRoomThatComesEarlyIsNotForgotten(t *testing.T) {
	t.Parallel()
	l := &lane{name: "jobs", limit: 1}
	w := newWorkshop(l)
	a := w.assignment()
	a.g = &group{feed: &feed{topic: "jobs"}, c: &Consumer{hub: w.hub}}
	a.wake = make(chan struct{}, 1)
	f := newFetcher(a)
	p := w.partition(a, l, 0)
	f.add(p)
	f.collect(time.Now())
	r := f.order[0]
	for _, early := range []bool{false, true} {
		r.busy, r.full, r.roomy = true, false, false // in a request
		if early {
			w.hub.mu.Lock()
			p.waiting = true
			p.wakeFetcher()
			w.hub.mu.Unlock()
			f.collect(time.Now())
		}
		f.note(answer{outcomes: []outcome{{r: r, full: true}}}, time.Now())
		if r.full == early {
			t.Errorf("room came early: %v; got full %v", early, r.full)
		}
	}
}
