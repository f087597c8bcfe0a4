package integration

import (
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"dispatcher/internal/containers"
	"dispatcher/internal/provider"
)

// What the nodes of a run are put through.
const (
	stallLeast = 5 * time.Millisecond // one stop of a process
	stallMost  = 40 * time.Millisecond
	stallShare = 0.03 // of the time

	quotaRun    = 20 * time.Millisecond // of CPU
	quotaPeriod = 100 * time.Millisecond
)

// A run as it is judged: what came before is start-up, and the time in which the
// fleet chooses its lateness. Where 5 s of counts leave doubt it looks at a minute.
const (
	stallsCap  = 300
	stallsJobs = 130 * stallsCap
	settling   = 70 * time.Second
)

// guards are compared in one run, at the same time, so that the machine is the
// same to both.
var guards = []struct {
	name     string
	settings []string
}{
	{"guard 10ms, lateness 3ms", []string{"limits.0.guard=10ms", "limits.0.lateness=3ms"}},
	{"guard auto", nil},
}

// What a fleet uses of its cap where its nodes are stopped for tens of
// milliseconds, and where they are not.
func TestStallsReal(t *testing.T) {
	w := startServers(t, containers.Kafka)
	t.Run("quiet", func(t *testing.T) { w.side(t, 0.98, nil) })
	t.Run("stopped for 5 to 40 ms", func(t *testing.T) {
		w.side(t, 0.965, func(t *testing.T, s *scene) (after func()) {
			t.Helper()
			s.start(t, 3)
			return s.stall(t)
		})
	})
	t.Run("20 ms of CPU in each 100 ms", func(t *testing.T) { w.side(t, 0.965, underQuota(false)) })
	t.Run("both", func(t *testing.T) { w.side(t, 0.965, underQuota(true)) })
}

// underQuota starts nodes that are each held to a part of the CPU.
func underQuota(stalled bool) func(*testing.T, *scene) func() {
	return func(t *testing.T, s *scene) (after func()) {
		t.Helper()
		var all []*quota
		for range 3 {
			q, err := newQuota(t, quotaRun, quotaPeriod)
			if err != nil {
				t.Skipf("NOT SHOWN: no CPU quota can be set on this machine: %v", err)
			}
			s.under = q.command()
			s.startOne(t)
			all = append(all, q)
		}
		end := func() {}
		if stalled {
			end = s.stall(t)
		}
		return func() {
			end()
			for i, q := range all {
				stopped, periods := q.throttled(t)
				t.Logf("node %d was stopped by its quota in %d of %d periods", i+1, stopped, periods)
			}
		}
	}
}

// stall stops each node of a scene on a schedule of its own, until the function
// that it returns is called.
func (s *scene) stall(t *testing.T) (end func()) {
	t.Helper()
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i, n := range s.nodes {
		all.Go(func() { stallOne(n, stop, rand.New(rand.NewPCG(uint64(i), 1))) })
	}
	return func() {
		close(stop)
		all.Wait()
	}
}

func stallOne(n *node, stop <-chan struct{}, r *rand.Rand) {
	const mean = (stallLeast + stallMost) / 2
	for {
		length := stallLeast + time.Duration(r.Int64N(int64(stallMost-stallLeast)))
		gap := time.Duration(r.ExpFloat64() * float64(mean) * (1 - stallShare) / stallShare)
		select {
		case <-stop:
			return
		case <-time.NewTimer(gap).C:
		}
		_ = n.cmd.Process.Signal(syscall.SIGSTOP)
		<-time.NewTimer(length).C
		_ = n.cmd.Process.Signal(syscall.SIGCONT)
	}
}

// side plays a fleet under each of the guards, side by side. The fleet with `guard: auto` must use at least want of the cap.
func (w *servers) side(t *testing.T, want float64, startUp func(*testing.T, *scene) func()) {
	t.Helper()
	untilFair(t, func() (provider.Report, []figureOf) {
		used, whole := w.playSide(t, startUp)
		return whole, []figureOf{fewUnjudged(whole), enough(used, want)}
	})
}

// playSide returns what the last of the guards used, behind the start-up, and all that its judge saw.
func (w *servers) playSide(t *testing.T, startUp func(*testing.T, *scene) func()) (used float64, whole provider.Report) {
	t.Helper()
	scenes := make([]*scene, len(guards))
	for i, g := range guards {
		scenes[i] = w.scene(t, stallsCap, 12, 20*time.Millisecond, g.settings...)
		scenes[i].enqueue(t, stallsJobs)
	}
	quiet(t)
	ends := make([]func(), len(scenes))
	for i, s := range scenes {
		if startUp == nil {
			s.start(t, 3)
			continue
		}
		ends[i] = startUp(t, s)
	}
	for _, s := range scenes {
		s.settled(t, 3*time.Minute)
	}
	for _, end := range ends {
		if end != nil {
			end()
		}
	}
	for i, s := range scenes {
		late := 0.0
		for _, n := range s.nodes {
			late += n.metric(t, "dispatcher_limit_late_slots_total")
		}
		used, whole = s.steady(t).Utilisation, s.judge.report(t, stallsCap)
		t.Logf("%-25s %.4f of the cap used (%.4f with the start), %d in the fullest second, %.0f late slots, %.3f unjudged, %.3f held up",
			guards[i].name, used, whole.Utilisation, whole.MaxInWindow, late, whole.Unjudged, whole.HeldUp)
		stop(t, s.nodes...)
		once(t, whole, stallsJobs)
		s.judge.end()
	}
	t.Logf("history:\n%s", scenes[len(scenes)-1].mustCommand(t, "limit", "history", "provider"))
	return used, whole
}

// steady is the judge's verdict on what came after the start-up.
func (s *scene) steady(t *testing.T) provider.Verdict {
	t.Helper()
	all := s.judge.arrivals(t)
	if len(all) == 0 {
		t.Fatal("no call arrived")
	}
	first := all[0].At
	for _, a := range all {
		first = min(first, a.At)
	}
	var rest []provider.Arrival
	for _, a := range all {
		if a.At >= first+settling {
			rest = append(rest, a)
		}
	}
	return provider.Judge(rest, nil, provider.Contract{Window: time.Second, Caps: []provider.CapFrom{{Cap: s.cap}}})
}
