package schedule

import (
	"errors"
	"log/slog"
	"testing"
	"time"
)

// A step costs the way of a job nothing where it is not logged.
func TestAStepThatIsNotLoggedAllocatesNothing(t *testing.T) { //nolint:paralleltest // allocations are counted
	d := &Delivery{part: &Partition{sched: New(Options{Log: slog.New(slog.DiscardHandler)})}}
	now, err := time.Now(), errors.New("refused")
	if n := testing.AllocsPerRun(100, func() {
		d.Step("called", slog.String("result", "unavailable"), slog.Int("status", 503), slog.Time("wrote_at", now), slog.Any("error", err))
	}); n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}
