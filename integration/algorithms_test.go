package integration

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"dispatcher/internal/containers"
	"dispatcher/internal/provider"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// write makes TestAlgorithms write its table into the documentation.
var write = flag.Bool("write", false, "write docs/algorithms.md")

// row is what one algorithm showed.
type row struct {
	algorithm    limit.Algorithm
	bound, worst int
	share        float64
	state        int64   // bytes
	script       float64 // µs of Redis's time a call
}

// Each algorithm, three nodes, twenty seconds of all they can take, after an
// opening that is the worst for those that can be hurt by one.
func TestAlgorithms(t *testing.T) {
	w := startServers(t, containers.Kafka)
	var rows []row
	for _, a := range limit.Algorithms() {
		t.Run(a.Name, func(t *testing.T) {
			if a.Name == "redis_cell" && os.Getenv("DISPATCHER_TEST_REDIS_CELL") == "" {
				t.Skip("DISPATCHER_TEST_REDIS_CELL says of no redis-cell module")
			}
			rows = append(rows, w.saturate(t, a))
		})
	}
	table := render(rows)
	t.Log("\n" + table)
	switch {
	case !*write || t.Failed():
	case len(rows) < len(limit.Algorithms()):
		t.Errorf("got %d of %d algorithms; a table that lacks some is not written", len(rows), len(limit.Algorithms()))
	default:
		writeTable(t, table)
	}
}

const (
	saturatedCap  = 300
	saturatedJobs = 20 * saturatedCap

	saturatedLateness = 8 * time.Millisecond // of those that give for now
)

// saturate plays one algorithm until the judge could judge it and its bound was
// reached: whether a burst falls on the end of a window is a matter of some 10 ms,
// so the worst of a few runs counts.
func (w *servers) saturate(t *testing.T, a limit.Algorithm) row {
	t.Helper()
	worst := 0
	for try := 1; ; try++ {
		r, whole := w.saturateOnce(t, a)
		t.Logf("%s: %d in the fullest second, the bound is %d, %.3f of the cap used, %d bytes of state, %.1f µs a script call, %.3f unjudged, %.3f held up",
			a.Name, r.worst, r.bound, r.share, r.state, r.script, whole.Unjudged, whole.HeldUp)
		if r.worst > r.bound {
			t.Errorf("got %d in the fullest second, want at most %d", r.worst, r.bound)
		}
		worst = max(worst, r.worst)
		r.worst = worst
		reached := 10*worst >= 9*r.bound
		if reached && whole.HeldUp <= maxHeldUp || try == tries || t.Failed() {
			containers.Figure(t, whole.Unjudged <= maxUnjudged, "got %.3f of the windows unjudged, want at most %.1f", whole.Unjudged, maxUnjudged)
			containers.Figure(t, reached, "got %d in the fullest second, want at least nine tenths of the bound of %d: the Worst of %s is too high, or the opening is not the worst for it",
				worst, r.bound, a.Name)
			return r
		}
	}
}

func (w *servers) saturateOnce(t *testing.T, a limit.Algorithm) (row, provider.Report) {
	t.Helper()
	burst, lateness := 1, limit.DefaultLateness
	if !a.Strict {
		lateness = saturatedLateness
	}
	if a.Name == "gcra" || a.Name == "redis_cell" { // on top of the rate, as most use them
		burst = saturatedCap
	}
	// A quick provider, so that few connections have to be opened in a burst, and
	// all the lateness there is: a unit that is given and comes late is not seen.
	s := w.scene(t, saturatedCap, 12, time.Millisecond,
		"limits.0.algorithm="+a.Name, "limits.0.burst="+strconv.Itoa(burst), "limits.0.lateness="+lateness.String(),
		"limits.0.guard="+limit.DefaultGuard.String())
	quiet(t)
	s.start(t, 3)
	c := limit.Contract{
		Cap: saturatedCap, Window: time.Second, Burst: int64(burst),
		Guard: limit.DefaultGuard, Lateness: lateness, Horizon: limit.DefaultHorizon,
	}
	s.warm(t, c)
	s.openingOf(t, a, c)
	if err := w.rdb.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.settled(t, 3*time.Minute)
	got := row{algorithm: a, bound: int(a.Worst(c)), state: s.stateBytes(t), script: w.scriptTime(t)}
	stop(t, s.nodes...)
	r := s.judge.report(t, got.bound)
	once(t, r, warmJobs+1+saturatedJobs)
	got.worst, got.share = r.MaxInWindow, shareOf(s.judge.arrivals(t)[warmJobs+1:], saturatedCap)
	s.judge.end() // the next try is not to share the machine with it
	return got, r
}

// shareOf is how full the windows of a second are on average, in units, as a part of the cap: all windows between the first
// of these calls and the last, which is more than a second later. So it matters little where in a burst they begin and end.
func shareOf(calls []provider.Arrival, most int) float64 {
	begin, end := calls[0].At, calls[len(calls)-1].At-time.Second // of the windows' beginnings
	var units float64
	for _, call := range calls {
		in := min(call.At, end) - max(call.At-time.Second, begin) // the windows that hold it
		units += float64(call.Units()) * max(0, in.Seconds())
	}
	return units / (end - begin).Seconds() / float64(most)
}

// Bursts of 300 calls 1.02 seconds apart use 1/1.02 of 300 a second, and evenly spaced calls what they use.
func TestShareOfBursts(t *testing.T) {
	t.Parallel()
	var bursts, even []provider.Arrival
	for i := range 30 * 300 {
		bursts = append(bursts, provider.Arrival{At: time.Duration(i/300)*1020*time.Millisecond + time.Duration(i%300)*500*time.Microsecond})
		even = append(even, provider.Arrival{At: time.Duration(i) * 3400 * time.Microsecond})
	}
	for _, calls := range [][]provider.Arrival{bursts, bursts[1:], bursts[450 : len(bursts)-150], bursts[599 : len(bursts)-299], even} {
		if got := shareOf(calls, 300); math.Abs(got-1/1.02) > 0.001 {
			t.Errorf("got %.4f for calls from %v to %v, want %.4f", got, calls[0].At, calls[len(calls)-1].At, 1/1.02)
		}
	}
}

// warmJobs are two caps: as many connections are opened for them as a burst needs.
const warmJobs = 2 * saturatedCap

// warm lets the nodes open their connections, so that a burst is not late for
// that, and then waits until nothing of it counts any more.
func (s *scene) warm(t *testing.T, c limit.Contract) {
	t.Helper()
	s.produce(t, warmJobs)
	s.judge.count(t, warmJobs, time.Minute)
	<-time.NewTimer(3 * (c.Window + c.Guard)).C
}

// openingOf sends one job ahead, which opens a window where the first call does
// that. All others are in the nodes' hands, held back by a pause, when they are
// let go shortly before a window ends.
func (s *scene) openingOf(t *testing.T, a limit.Algorithm, c limit.Contract) {
	t.Helper()
	s.produce(t, 1)
	s.judge.count(t, warmJobs+1, time.Minute)
	s.pause(t, true)
	s.produce(t, saturatedJobs)
	<-time.NewTimer(handOver).C
	left := s.windowLeft(t, a, c)
	for left < openBefore { // the next one, then
		left += c.Window + c.Guard
	}
	<-time.NewTimer(left - openBefore).C
	s.pause(t, false)
}

const (
	handOver   = 300 * time.Millisecond // from Kafka to the nodes' hands
	openBefore = 60 * time.Millisecond  // a burst of a whole cap takes less
)

// pause holds the limit back, or lets it go on.
func (s *scene) pause(t *testing.T, paused bool) {
	t.Helper()
	operator, err := control.NewControl(s.rdb, s.namespace, "provider")
	if err == nil {
		_, err = operator.Set(t.Context(), control.Change{Values: parameters.Values{"paused": fmt.Sprint(paused)}, By: "test"})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// windowLeft is how long the window lasts that Redis counts in now.
func (s *scene) windowLeft(t *testing.T, a limit.Algorithm, c limit.Contract) time.Duration {
	t.Helper()
	now, err := s.rdb.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	switch a.Name {
	case "fixed_window":
		ends, err := s.rdb.HGet(t.Context(), "dispatcher:{"+s.namespace+"}:limit:provider", "keep").Int64()
		if err != nil {
			t.Fatal(err)
		}
		left := time.UnixMicro(ends).Sub(now)
		if left < openBefore {
			t.Logf("the window that the first call opened lasts for %v only", left)
		}
		return max(left, openBefore)
	case "sliding_window_counter":
		period := (c.Window + c.Guard).Microseconds()
		return time.Duration(period-now.UnixMicro()%period) * time.Microsecond
	}
	return c.Window
}

// produce writes n jobs at once, from this process.
func (s *scene) produce(t *testing.T, n int) {
	t.Helper()
	if s.writer == nil {
		s.writer = &kafka.Writer{
			Addr: kafka.TCP(s.kafka.Addr), Topic: s.topic, Balancer: &kafka.RoundRobin{}, BatchSize: 1000, BatchTimeout: time.Millisecond,
			RequiredAcks: kafka.RequireAll, Transport: &kafka.Transport{},
		}
		t.Cleanup(func() { _ = s.writer.Close() })
	}
	jobs := make([]kafka.Message, n)
	for i := range jobs {
		s.written++
		jobs[i] = kafka.Message{Key: fmt.Appendf(nil, "k%d", s.written), Value: fmt.Appendf(nil, `{"id":"job-%d"}`, s.written)}
	}
	if err := s.writer.WriteMessages(t.Context(), jobs...); err != nil {
		t.Fatal(err)
	}
}

// stateBytes is what Redis keeps of the limit, but for its history of changes and
// what it keeps of each node.
func (s *scene) stateBytes(t *testing.T) (sum int64) {
	t.Helper()
	for _, kind := range []string{"limit", "state"} {
		n, err := s.rdb.MemoryUsage(t.Context(), "dispatcher:{"+s.namespace+"}:"+kind+":provider").Result()
		if err == nil { // there need not be one
			sum += n
		}
	}
	return sum
}

// scriptTime is Redis's time of a call, in µs.
func (w *servers) scriptTime(t *testing.T) float64 {
	t.Helper()
	r := scriptsRun(t, w.rdb, "evalsha")
	return float64(r.took.Microseconds()) / float64(r.calls)
}

func render(rows []row) string {
	var b strings.Builder
	b.WriteString("| algorithm | what it admits | bound | worst second seen | share used | state | script |\n|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| `%s` | %s | %d | %d | %.3f | %d B | %.0f µs |\n",
			r.algorithm.Name, r.algorithm.Promise, r.bound, r.worst, r.share, r.state, r.script)
	}
	return b.String()
}

const (
	tableBegin = "<!-- table: written by make algorithms -->\n"
	tableEnd   = "<!-- end of table -->\n"
)

func writeTable(t *testing.T, table string) {
	t.Helper()
	const path = "../docs/algorithms.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), tableBegin)
	_, tail, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", path)
	}
	if err := os.WriteFile(path, []byte(head+tableBegin+table+tableEnd+tail), 0o600); err != nil {
		t.Fatal(err)
	}
}
