package schedule

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"dispatcher/consumer/internal/steps"
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

// Only a job that waits behind another one of its key is logged as such, with the offset of
// that one, and never its key.
func TestTheLogSaysBehindWhichJobAnotherWaits(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	l := &Lane{name: "default", mostJobs: 8}
	w := newBench(l)
	w.log = steps.Log{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	addJobs(partition(w.NewAssignment(), l, 0), 'k', 0, 'q', 'k', 0, 'k')
	var behind []string
	for line := range strings.Lines(log.String()) {
		if _, place, ok := strings.Cut(line, "partition=0 "); ok && strings.Contains(line, "waits behind another job of its key") {
			behind = append(behind, strings.TrimSpace(place))
		}
	}
	if got, want := strings.Join(behind, ", "), "offset=3 previous=0, offset=5 previous=3"; got != want {
		t.Errorf("got %s, want %s in\n%s", got, want, log.String())
	}
	if n := strings.Count(log.String(), "step=fetched"); n != 6 {
		t.Errorf("got %d jobs fetched in the log, want 6", n)
	}
}
