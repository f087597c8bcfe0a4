package phase_test

import (
	"testing"
	"time"

	"dispatcher/throttle/phase"
)

// The end of an override is no end of a pause that outlasts it.
func TestANoteOfAPauseNamesItsEnd(t *testing.T) {
	t.Parallel()
	s := phase.State{Phase: phase.Paused}
	s.Settings.Paused, s.Settings.By, s.Settings.Why, s.Settings.RevertAt = true, "bob", "a test", time.Unix(1_700_000_900, 0)
	if got, want := s.Note(), "paused until 2023-11-14T22:28:20Z; last change by bob (a test)"; got != want || s.Ready() != nil {
		t.Errorf("got %q and %v, want %q", got, s.Ready(), want)
	}
	s.Settings.RevertTo.Paused = true
	if got, want := s.Note(), "paused until somebody resumes it (dispatcher limit resume); last change by bob (a test)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
