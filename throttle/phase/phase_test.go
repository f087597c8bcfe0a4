package phase_test

import (
	"strings"
	"testing"
	"time"

	"dispatcher/throttle/limit"
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

// A change that stops all calls names its end, and how to go back.
func TestANoteOfAChangeNamesItsEnd(t *testing.T) {
	t.Parallel()
	s := phase.State{Phase: phase.Changing, Until: time.Unix(1_700_000_900, 0)}
	s.Settings.By = "bob"
	const note = "new settings begin at 2023-11-14T22:28:20Z, last change by bob: nothing is sent until units of those before are over; dispatcher limit undo goes back"
	if got := s.Note(); got != note {
		t.Errorf("got %q, want %q", got, note)
	}
}

// A node that Redis answers too slowly says what helps: the fleet by itself where the guard is auto and a
// class of lateness is long enough, else the operator.
func TestASlowRedisNamesItsRemedy(t *testing.T) {
	t.Parallel()
	contract := limit.Contract{
		Cap: 300, Window: time.Second, Burst: 1, Guard: limit.DefaultGuard, Lateness: limit.DefaultLateness, Spread: limit.DefaultSpread, Horizon: limit.DefaultHorizon,
	}
	fixed, auto := contract, contract.WithLateness(limit.DefaultLateness)
	for _, row := range []struct {
		contract limit.Contract
		width    time.Duration
		want     string
	}{
		{fixed, 8 * time.Millisecond, "its clock is known to 8ms only, and the lateness is 3ms; raise them with limit set --lateness --guard, or bring Redis nearer"},
		{auto, 8 * time.Millisecond, "the fleet raises it within 15 s, to 50ms at most, or bring Redis nearer"},
		{auto, 49400 * time.Microsecond, "to 50ms at most"},
		{auto, 49500 * time.Microsecond, "raise them with limit set --lateness --guard, or bring Redis nearer"},
	} {
		s := phase.State{Phase: phase.TooSlow, Settings: limit.Spec{Terms: limit.Terms{Contract: row.contract}}.Settings(), Width: row.width}
		if got := s.Ready(); got == nil || !strings.Contains(got.Error(), row.want) {
			t.Errorf("guard auto %t, known to %s: got %q, want %q", row.contract.Auto, row.width, got, row.want)
		}
	}
}
