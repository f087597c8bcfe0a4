package integration

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"dispatcher/internal/containers"
)

var soak = flag.Duration("soak", 0, "how long the soak lasts; 0: it is left out")

const (
	soakCap  = 1000
	settleIn = 6 // the first sample is taken after this part of the soak: 5 of 30 minutes
	quietFor = 20 * time.Second
)

// held is what a fleet holds at one moment. Node 1 lives as long as the soak.
type held struct {
	at                             time.Duration
	memory                         int // bytes, of node 1
	goroutines, files, connections int // of node 1
	keys                           int64
	redis                          int // bytes
	script                         time.Duration
	late                           float64 // slots, of node 1
}

// Three nodes work at 1000/s for half an hour, while nodes leave and join, Redis and the broker restart, and the rate changes. No
// window is over, no job is lost, and nothing that the fleet holds grows.
//
//	make soak
func TestSoak(t *testing.T) {
	if *soak == 0 {
		t.Skip("-soak=30m plays it, and so does make soak")
	}
	var broker *containers.KafkaSet
	w := startServers(t, func(testing.TB) *containers.Server {
		broker = containers.KafkaSetOf(t, 1)
		return &containers.Server{Addr: broker.Addr(1)}
	})
	s := w.scene(t, soakCap, 12, 20*time.Millisecond)
	jobs := int(soakCap * soak.Seconds() * 9 / 10)
	t.Logf("%d jobs were written in %v", jobs, s.fill(t, jobs).Round(time.Second))
	s.start(t, 3)
	s.judge.count(t, 5*soakCap, time.Minute)
	began := time.Now()
	var early, end held
	for n := 0; time.Since(began) < *soak-time.Minute; n++ {
		s.disturb(t, broker, n)
		if early.at == 0 && time.Since(began) >= *soak/settleIn {
			early = s.holds(t, began)
		}
	}
	end = s.holds(t, began)
	s.settled(t, 5*time.Minute)
	stop(t, s.running()...)
	r := s.judge.report(t, soakCap)
	t.Logf("%d calls for %d jobs, %d repeated, %d in the fullest judged second, %.3f of the cap used, %.3f unjudged",
		r.Sent, r.Distinct, r.Repeated, r.MaxInWindow, r.Utilisation, r.Unjudged)
	kept(t, r)
	if r.Distinct != jobs {
		t.Errorf("got %d jobs sent, want all %d", r.Distinct, jobs)
	}
	t.Log(table(early, end))
	grows(t, early, end)
}

// disturb is a minute of the soak.
func (s *scene) disturb(t *testing.T, broker *containers.KafkaSet, n int) {
	t.Helper()
	s.mustCommand(t, "limit", "set", "provider", "--cap", "800", "--for", "10s", "--wait")
	pass(15 * time.Second)
	stop(t, s.running()[1])
	pass(5 * time.Second)
	s.startOne(t)
	pass(10 * time.Second)
	switch n % 5 { //nolint:mnd // each of them twice in ten minutes
	case 1:
		_ = s.rdb.ShutdownNoSave(t.Context()).Err() // the container starts it again, without its data
	case 3:
		broker.Stop(1)
		broker.Start(1)
	}
	pass(15 * time.Second)
}

// holds looks at the fleet while nothing disturbs it.
func (s *scene) holds(t *testing.T, began time.Time) held {
	t.Helper()
	n := s.nodes[0]
	before := s.scripts(t)
	pass(quietFor)
	after := s.scripts(t)
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", n.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := s.rdb.DBSize(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	h := held{
		at: time.Since(began), memory: n.memory(t), goroutines: int(n.metric(t, "go_goroutines")), files: len(files),
		connections: n.connections(t, s.kafka.Addr) + n.connections(t, s.redis.Addr) + n.connections(t, s.judge.addr), keys: keys,
		late: n.metric(t, "dispatcher_limit_late_slots_total"),
	}
	h.redis = int(s.infoNumber(t, "memory", "used_memory"))
	if calls := after.calls - before.calls; calls > 0 {
		h.script = (after.took - before.took) / time.Duration(calls)
	}
	return h
}

// scriptsRun are the scripts that Redis has run since it started.
type scriptsRun struct {
	calls int
	took  time.Duration
}

func (s *scene) scripts(t *testing.T) scriptsRun {
	t.Helper()
	info, err := s.rdb.InfoMap(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	var calls, us int
	if _, err := fmt.Sscanf(info["Commandstats"]["cmdstat_evalsha"], "calls=%d,usec=%d", &calls, &us); err != nil {
		t.Fatalf("got %v, want the calls of evalsha: %v", info, err)
	}
	return scriptsRun{calls, time.Duration(us) * time.Microsecond}
}

// infoNumber is one number of Redis's INFO.
func (s *scene) infoNumber(t *testing.T, section, name string) (n float64) {
	t.Helper()
	info, err := s.rdb.Info(t.Context(), section).Result()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(info, "\n"+name+":")
	if _, err := fmt.Sscan(rest, &n); !found || err != nil {
		t.Fatalf("INFO %s has no %s: %v\n%s", section, name, err, info)
	}
	return n
}

func table(early, end held) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(&text, "what is held:\n")
	row := func(name string, early, end any) { _, _ = fmt.Fprintf(w, "%s\t%v\t%v\t\n", name, early, end) }
	row("after", early.at.Round(time.Second), end.at.Round(time.Second))
	row("memory of node 1, MiB", early.memory>>20, end.memory>>20)
	row("goroutines", early.goroutines, end.goroutines)
	row("open files", early.files, end.files)
	row("connections", early.connections, end.connections)
	row("keys in Redis", early.keys, end.keys)
	row("memory of Redis, kB", early.redis/1000, end.redis/1000)
	row("a script call", early.script, end.script)
	row("late slots of node 1", early.late, end.late)
	_ = w.Flush()
	return text.String()
}

// grows fails where something grew. What depends on the load of the moment may be a part more.
func grows(t *testing.T, early, end held) {
	t.Helper()
	for _, row := range []struct {
		name       string
		early, end float64
		more       float64 // that may be more, as a part
		plus       float64 // and this
	}{
		{"memory of node 1", float64(early.memory), float64(end.memory), 0.2, 0},
		{"goroutines", float64(early.goroutines), float64(end.goroutines), 0.1, 10},
		{"open files", float64(early.files), float64(end.files), 0.1, 10},
		{"connections", float64(early.connections), float64(end.connections), 0.1, 10},
		{"keys in Redis", float64(early.keys), float64(end.keys), 0, 130}, // the calls of an hour lie in 120 keys
		{"memory of Redis", float64(early.redis), float64(end.redis), 0.2, 200_000},
		{"a script call", float64(early.script), float64(end.script), 0.3, 0},
	} {
		most := row.early*(1+row.more) + row.plus
		figure(t, row.end <= most, "%s: got %.0f at the end and %.0f early, want at most %.0f", row.name, row.end, row.early, most)
	}
}
