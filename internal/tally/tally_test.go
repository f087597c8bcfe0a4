package tally_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dispatcher/internal/tally"
)

// Of a kind, the first event is due at once, then a sum after five seconds and one a
// minute. Each sum counts the events since the line before.
func TestLines(t *testing.T) {
	t.Parallel()
	c := tally.New[int](4)
	start := time.Unix(1000, 0)
	var lines []string
	total := 0
	for i := range 1200 { // ten a second, for two minutes
		now := start.Add(time.Duration(i) * 100 * time.Millisecond)
		if s, ok := c.Note(now, "a", i); ok {
			lines = append(lines, fmt.Sprintf("%v: %d of %d, %.0f/s", now.Sub(start), s.Count, s.Last, s.PerSecond()))
			total += s.Count
		}
	}
	want := []string{"0s: 1 of 0, 0/s", "5s: 50 of 50, 10/s", "1m5s: 600 of 650, 10/s"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	for _, s := range c.Due(start.Add(3 * time.Minute)) {
		total += s.Count
	}
	if total != 1200 {
		t.Errorf("got %d events in all lines, want 1200", total)
	}
}

// Due returns the remaining sum once if no further event comes. A kind without events
// for a minute begins again.
func TestDue(t *testing.T) {
	t.Parallel()
	c := tally.New[string](4)
	start := time.Unix(1000, 0)
	c.Note(start, "a", "one")
	c.Note(start.Add(time.Second), "a", "two")
	if got := c.Due(start.Add(4 * time.Second)); len(got) != 0 {
		t.Errorf("got %v before five seconds, want nothing", got)
	}
	if got := c.Due(start.Add(6 * time.Second)); len(got) != 1 || got[0].Count != 1 || got[0].Last != "two" {
		t.Errorf("got %v, want one sum of 1 event", got)
	}
	if got := c.Due(start.Add(65 * time.Second)); len(got) != 0 {
		t.Errorf("got %v a second time, want nothing", got)
	}
	c.Due(start.Add(66 * time.Second))
	if s, ok := c.Note(start.Add(67*time.Second), "a", "three"); !ok || s.Over != 0 {
		t.Errorf("got %v, %v after a silent minute, want a first line", s, ok)
	}
}

// However many kinds there are, the lines are bounded.
func TestKindsAreBounded(t *testing.T) {
	t.Parallel()
	const kinds = 8
	c := tally.New[int](kinds)
	start := time.Unix(1000, 0)
	lines := 0
	for i := range 10_000 {
		if _, ok := c.Note(start.Add(time.Duration(i)*time.Millisecond), fmt.Sprint(i), i); ok {
			lines++
		}
	}
	if lines < kinds || lines > kinds+2 {
		t.Errorf("got %d lines of 10,000 kinds in 10 s, want %d and at most 2 for the rest", lines, kinds)
	}
}
