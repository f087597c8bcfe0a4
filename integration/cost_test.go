package integration

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"dispatcher/internal/containers"
	"dispatcher/internal/provider"
	"dispatcher/throttle/limit"
)

// Jobs count 1 to 6 units, as text messages of so many segments do. The provider counts
// units. Beside them, the same fleet with jobs of one unit.
func TestCostReal(t *testing.T) {
	w := startServers(t, containers.Kafka)
	for _, c := range []struct {
		name        string
		algorithm   string
		cap         int
		most        int     // units of a job
		seconds     int     // that the jobs take, about
		utilisation float64 // at least, in units, behind a tenth of the jobs
	}{
		{"300 a second, jobs of one unit", limit.TokenBucket, 300, 1, 30, 0.98},
		{"300 a second", limit.TokenBucket, 300, 6, 30, 0.97},
		{"300 a second, by the log", limit.SlidingWindowLog, 300, 6, 30, 0.97},
		{"20 a second, by the log", limit.SlidingWindowLog, 20, 6, 100, 0.97},
	} {
		t.Run(c.name, func(t *testing.T) { w.cost(t, c.algorithm, c.cap, c.most, c.seconds, c.utilisation) })
	}
}

// cost plays three nodes for so long, until the machine lets the fleet and the judge work.
func (w *servers) cost(t *testing.T, algorithm string, limit, most, seconds int, utilisation float64) {
	t.Helper()
	untilFair(t, func() (provider.Report, []figureOf) {
		s := w.scene(t, limit, 12, 20*time.Millisecond,
			"limits.0.algorithm="+algorithm, fmt.Sprintf("limits.0.max_cost=%d", most))
		units, jobs := 0, 0
		var lines bytes.Buffer
		for ; units < seconds*limit; jobs++ {
			cost := 1 + jobs*7%most
			units += cost
			fmt.Fprintf(&lines, `{"key":"k%d","id":"job-%d*%d","headers":{"cost":"%d"},"value":"hello"}`+"\n", jobs, jobs, cost, cost)
		}
		s.enqueueLines(t, &lines)
		quiet(t)
		s.start(t, 3)
		s.settled(t, 3*time.Minute)
		t.Logf("%.2f script calls a job", s.scriptCalls(t)/float64(jobs))
		stop(t, s.nodes...)
		r, steady := s.judge.report(t, limit), shareOf(s.judge.arrivals(t)[jobs/10:], limit) // once the nodes have their partitions
		s.judge.end()
		t.Logf("%s, jobs of up to %d units: %d units in %d calls, %d units in the fullest second, %.4f of the cap used, %.4f behind a tenth of the jobs, %.3f unjudged, %.3f held up",
			strings.ReplaceAll(algorithm, "_", " "), most, r.Units, r.Sent, r.MaxInWindow, r.Utilisation, steady, r.Unjudged, r.HeldUp)
		once(t, r, jobs)
		if r.Units != units {
			t.Errorf("got %d units at the provider, want %d", r.Units, units)
		}
		return r, []figureOf{fewUnjudged(r), enough(steady, utilisation)}
	})
}
