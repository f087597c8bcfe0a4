package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"dispatcher/internal/containers"
	"dispatcher/internal/provider"
)

// Whatever happens to nodes, Redis, the limit and the provider, no window is
// over the cap and no job is lost.
func TestFaults(t *testing.T) {
	w := startServers(t, containers.Kafka)
	t.Run("a node is killed", judged(w.nodeKilled))
	t.Run("a node is asked to stop", judged(w.nodeStopped))
	t.Run("a node is paused for two seconds", judged(w.nodePaused))
	t.Run("Redis is flushed", judged(w.redisFlushed))
	t.Run("Redis is restarted empty", judged(w.redisRestarted))
	t.Run("the limit is changed", judged(w.limitChanged))
	t.Run("a node joins and another dies", judged(w.joinAndDie))
	t.Run("the provider is down for a minute", judged(w.providerDown))
}

// judged plays a scenario until the machine lets the judge judge it. What does
// not hold fails the test at once, however little was judged.
func judged(scenario func(*testing.T) provider.Report) func(*testing.T) {
	return func(t *testing.T) {
		untilFair(t, func() (provider.Report, []figureOf) {
			quiet(t)
			r := scenario(t)
			return r, []figureOf{fewUnjudged(r)}
		})
	}
}

const (
	faultCap     = 300
	faultJobs    = 3000
	faultLatency = 20 * time.Millisecond
)

// disturbed starts three nodes on a backlog and returns half-way.
func (w *servers) disturbed(t *testing.T) *scene {
	t.Helper()
	s := w.scene(t, faultCap, 12, faultLatency)
	s.enqueue(t, faultJobs)
	s.start(t, 3)
	s.judge.count(t, faultJobs/2, time.Minute)
	return s
}

// finish waits for the end of a scene, stops its nodes and reports.
func (s *scene) finish(t *testing.T) provider.Report {
	t.Helper()
	s.settled(t, 2*time.Minute)
	stop(t, s.running()...)
	r := s.judge.report(t, s.cap)
	t.Logf("%d calls for %d jobs, %d in the fullest judged second, %.3f of the cap used, %.3f unjudged, %.3f held up",
		r.Sent, r.Distinct, r.MaxInWindow, r.Utilisation, r.Unjudged, r.HeldUp)
	return r
}

// finishOnce is finish for a scenario in which every job is sent once.
func (s *scene) finishOnce(t *testing.T, jobs int) provider.Report {
	t.Helper()
	r := s.finish(t)
	once(t, r, jobs)
	return r
}

func (w *servers) nodeKilled(t *testing.T) provider.Report {
	t.Helper()
	s := w.disturbed(t)
	dead := s.nodes[1]
	dead.signal(t, syscall.SIGKILL)
	_ = dead.wait(t, 10*time.Second)
	r := s.finish(t)
	kept(t, r)
	if r.Distinct != faultJobs {
		t.Errorf("got %d jobs sent, want %d", r.Distinct, faultJobs)
	}
	repeatsAreFresh(t, r, s.judge.arrivals(t), dead)
	return r
}

// repeatsAreFresh expects that only the killed node's jobs were repeated: those
// that were on the wire at the kill, or settled in the last commit interval and
// the time a commit takes.
func repeatsAreFresh(t *testing.T, r provider.Report, calls []provider.Arrival, dead *node) {
	t.Helper()
	const within = 100*time.Millisecond + faultLatency + 50*time.Millisecond
	fresh, ever := lastOf(calls, dead.number, within), lastOf(calls, dead.number, time.Hour)
	repeats := repeated(calls)
	t.Logf("%d repeats; the dead node had sent %d in its last %v", len(repeats), len(fresh), within)
	for _, key := range repeats {
		switch {
		case !slices.Contains(ever, key):
			t.Errorf("job %s was repeated, and the node that was killed had not sent it", key)
		case !slices.Contains(fresh, key):
			tooOld(t, r, "job %s was repeated, and was neither on the wire nor just settled at the kill", key)
		}
	}
}

// tooOld fails the test for a repeat of a job that should have been settled long
// before the kill. A machine that stands still commits nothing meanwhile: where
// it did so too often for the judge, it is a figure.
func tooOld(t *testing.T, r provider.Report, format string, args ...any) {
	t.Helper()
	if r.HeldUp > maxHeldUp {
		figure(t, false, format, args...)
		return
	}
	t.Errorf(format, args...)
}

// lastOf are the keys that a node sent in its last d.
func lastOf(all []provider.Arrival, node int, d time.Duration) (keys []string) {
	var last time.Duration
	for _, a := range all {
		if a.Node == node {
			last = max(last, a.At)
		}
	}
	for _, a := range all {
		if a.Node == node && a.At >= last-d {
			keys = append(keys, a.Key)
		}
	}
	return keys
}

func repeated(all []provider.Arrival) []string {
	seen, twice := map[string]bool{}, map[string]bool{}
	for _, a := range all {
		twice[a.Key] = seen[a.Key]
		seen[a.Key] = true
	}
	maps.DeleteFunc(twice, func(_ string, again bool) bool { return !again })
	return slices.Collect(maps.Keys(twice))
}

func (w *servers) nodeStopped(t *testing.T) provider.Report {
	t.Helper()
	s := w.disturbed(t)
	stop(t, s.nodes[1])
	return s.finishOnce(t, faultJobs)
}

func (w *servers) nodePaused(t *testing.T) provider.Report {
	t.Helper()
	s := w.disturbed(t)
	s.nodes[1].signal(t, syscall.SIGSTOP)
	pass(2 * time.Second)
	s.nodes[1].signal(t, syscall.SIGCONT)
	return s.finishOnce(t, faultJobs)
}

func (w *servers) redisFlushed(t *testing.T) provider.Report {
	t.Helper()
	s := w.disturbed(t)
	if err := w.rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	return s.finishOnce(t, faultJobs)
}

func (w *servers) redisRestarted(t *testing.T) provider.Report {
	t.Helper()
	s := w.disturbed(t)
	_ = w.rdb.ShutdownNoSave(t.Context()).Err() // the server goes without an answer
	eventually(t, 10*time.Second, func() bool { code, _ := s.nodes[0].ready(t); return code == 503 },
		func() string { return "a node is ready without Redis" })
	return s.finishOnce(t, faultJobs)
}

func (w *servers) limitChanged(t *testing.T) provider.Report {
	t.Helper()
	const jobs = 6000
	s := w.scene(t, faultCap, 12, faultLatency)
	s.enqueue(t, jobs)
	s.start(t, 3)
	s.judge.count(t, 900, time.Minute)
	s.setCap(t, 150)
	pass(4 * time.Second)
	s.setCap(t, 400)
	pass(3 * time.Second)
	s.setCap(t, 150)
	pass(time.Second)
	want := s.limit(t)
	if err := w.rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	pass(4 * time.Second)
	got := s.limit(t)
	if got.Lateness != want.Lateness { // the fleet chose another one meanwhile
		want.Lateness, want.Revision = got.Lateness, want.Revision+1
	}
	if got != want || got.Cap != 150 {
		t.Errorf("got %+v after Redis lost its data, want %+v with a cap of 150", got, want)
	}
	s.setCap(t, 400)
	return s.finishOnce(t, jobs)
}

// setCap changes the cap with the command; from now on the judge holds the
// fleet to it.
func (s *scene) setCap(t *testing.T, to int) {
	t.Helper()
	s.judge.changed(to)
	s.mustCommand(t, "limit", "set", "provider", "--cap", fmt.Sprint(to))
}

type limitShown struct {
	Cap      int     `json:"cap"`
	Lateness float64 `json:"lateness_s"`
	Revision int64   `json:"revision"`
}

func (s *scene) limit(t *testing.T) (shown limitShown) {
	t.Helper()
	out := s.mustCommand(t, "limit", "get", "provider", "--json")
	if err := json.Unmarshal([]byte(out), &shown); err != nil {
		t.Fatalf("limit get: %v\n%s", err, out)
	}
	return shown
}

// pass lets time pass: a stretch of a scenario, not a wait for something.
func pass(d time.Duration) { <-time.NewTimer(d).C }

func (w *servers) joinAndDie(t *testing.T) provider.Report {
	t.Helper()
	const jobs, latency = 9000, 800 * time.Millisecond
	s := w.scene(t, faultCap, 12, latency)
	s.enqueue(t, jobs)
	begin := time.Now()
	first := s.startOne(t)
	s.judge.count(t, 1, time.Minute)
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("got the first call %v after the start, want it within 3 s", took)
	} else {
		t.Logf("first call %v after the start", took)
	}
	s.judge.count(t, 600, time.Minute)
	inFlight := 0.0
	eventually(t, time.Minute, func() bool {
		inFlight = first.metric(t, "dispatcher_consumer_in_flight_jobs")
		return inFlight >= 100
	}, func() string {
		return fmt.Sprintf("%v jobs are in flight, want 100 at least, or the scenario shows nothing", inFlight)
	})
	second := s.startOne(t)
	before := s.judge.report(t, 1).Sent
	s.judge.count(t, before+900, time.Minute)
	calls := stamps(s.judge.arrivals(t))
	gap, _ := longestGap(calls, calls[0])
	t.Logf("work stood still for %v while the second node joined", gap)
	if gap > 3*time.Second {
		t.Errorf("work stood still for %v, want less than 3 s", gap)
	}
	joined := s.judge.report(t, s.cap)
	once(t, joined, joined.Sent)

	theirs := s.parts(t, second)
	second.signal(t, syscall.SIGKILL)
	_ = second.wait(t, 10*time.Second)
	died := time.Now()
	eventually(t, 15*time.Second, func() bool { return s.worked(t, theirs) },
		func() string { return "the dead node's partitions are not worked" })
	t.Logf("the dead node's %d partitions were worked again after %v", len(theirs), time.Since(died))
	r := s.finish(t)
	kept(t, r)
	if r.Distinct != jobs {
		t.Errorf("got %d jobs sent, want %d", r.Distinct, jobs)
	}
	return r
}

func (w *servers) providerDown(t *testing.T) provider.Report {
	t.Helper()
	const jobs, limit, down = 1500, 100, time.Minute
	s := w.scene(t, limit, 12, faultLatency)
	s.enqueue(t, jobs)
	s.start(t, 3)
	s.judge.count(t, 300, time.Minute)
	s.judge.post(t, "/down", "")
	pass(down)
	before := s.judge.report(t, limit).Sent
	s.judge.post(t, "/up", "")
	back := time.Now()
	s.judge.count(t, before+10, 5*time.Second)
	t.Logf("work resumed %v after the provider's return", time.Since(back))
	r := s.finish(t)
	kept(t, r)
	if r.Accepted != jobs {
		t.Errorf("got %d jobs accepted, want %d", r.Accepted, jobs)
	}
	if dead := s.all(t, s.topic+".dlq"); len(dead) != 0 {
		t.Errorf("got %d dead letters, want none", len(dead))
	}
	return r
}
