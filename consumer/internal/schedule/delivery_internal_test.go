package schedule

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dispatcher/consumer/internal/states"
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

// Whatever a worker, the settler and the timers do with a job, in any order and more than
// once: it is settled once, and its worker's place is freed once.
func TestAJobIsSettledOnceAndFreesItsPlaceOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := &Lane{name: "default", mostJobs: 1}
		s := newBench(l)
		a := s.NewAssignment()
		p := partition(a, l, 0)
		addJobs(p, 1)
		d := s.Take()
		done, before := false, d.state // done: the offset was completed when the job was settled
		isOver := func(s states.State) bool { return s == states.Abandoned || s == states.Over }
		settle := func(t *rapid.T, by func(*Delivery, bool)) {
			complete, open := rapid.Bool().Draw(t, "complete"), !isOver(d.state)
			if by(d, complete); open && isOver(d.state) {
				done = complete
			}
		}
		timeOutNow := func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.timeOut(d, time.Now())
		}
		if rapid.Bool().Draw(t, "stuck") {
			timeOutNow()
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin":    func(*rapid.T) { BeginRecord(d) },
			"abort":    func(*rapid.T) { s.abortRecord(d) },
			"let go":   func(t *rapid.T) { settle(t, endUnwritten) },
			"recorded": func(t *rapid.T) { settle(t, EndRecord) },
			"sleep":    func(*rapid.T) { d.Sleep(SleepOptions{Until: time.Now().Add(time.Hour), WakeEarly: true}) },
			"requeue":  func(*rapid.T) { d.Requeue() },
			"put back": func(*rapid.T) { s.PutBack([]*Delivery{d}) },
			"wake":     func(*rapid.T) { s.Wake() },
			"diverted": func(*rapid.T) { a.Diverted() },
			"time out": func(*rapid.T) { timeOutNow() },
			"take": func(t *rapid.T) {
				if got := s.Take(); got != nil && got != d {
					t.Fatalf("got job %v, want none or %v", got, d)
				}
			},
			"": func(t *rapid.T) {
				workers, writes := 0, 0
				if d.state.Decidable() || d.state.Late() {
					workers = 1
				}
				if d.state == states.Diverted || d.state == states.TimedOut {
					writes = 1
				}
				if l.inFlight != workers || p.inFlight != workers || a.awaited != workers+writes {
					t.Fatalf("state %d: got %d, %d and %d in flight in lane, partition and assignment, want %d, %d and %d",
						d.state, l.inFlight, p.inFlight, a.awaited, workers, workers, workers+writes)
				}
				if isOver(before) && !isOver(d.state) {
					t.Fatalf("got state %d after %d, want the job to stay over", d.state, before)
				}
				if got := p.tracker.Low() == 1; got != done {
					t.Fatalf("state %d: got offset complete %v, want %v", d.state, got, done)
				}
				before = d.state
			},
		})
		d.Release()
		if l.inFlight != 0 || p.inFlight != 0 {
			t.Fatalf("state %d after %d: got %d and %d in flight in lane and partition after the worker let go, want none", d.state, before, l.inFlight, p.inFlight)
		}
	})
}
