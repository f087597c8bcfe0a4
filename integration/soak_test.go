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
	settleIn = 6 // the fleet is looked at after this part of the soak, 5 of 30 minutes, and at the end
	quietFor = 20 * time.Second
)

// held is what a fleet holds at one moment. Node 1 lives as long as the soak.
type held struct {
	at                             time.Duration
	memory                         peaks // of node 1
	goroutines, files, connections int   // of node 1
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
	n := 0
	until := func(d time.Duration) (memory peaks) {
		for ; time.Since(began) < d; n++ {
			memory.add(s.disturb(t, broker, n))
		}
		return memory
	}
	memory := until(*soak / settleIn)
	early := s.holds(t, began, memory)
	until(*soak - *soak/settleIn - time.Minute)
	memory = until(*soak - time.Minute)
	end := s.holds(t, began, memory)
	s.settled(t, 5*time.Minute)
	stop(t, s.running()...)
	r := s.judge.report(t, soakCap)
	t.Logf("%d calls for %d jobs, %d repeated, %d in the fullest judged second, %.3f of the cap used, %.3f unjudged",
		r.Sent, r.Distinct, r.Repeated, r.MaxInWindow, r.Utilisation, r.Unjudged)
	kept(t, r)
	if r.Distinct != jobs {
		t.Errorf("got %d jobs sent, want all %d", r.Distinct, jobs)
	}
	grows(t, early, end)
}

// peaks are of the memory of a node, over minutes, in bytes. What is resident at one moment says little: the runtime lets the heap grow to
// twice of what lives, and gives it back late.
type peaks struct {
	resident int // at most
	heap     int // at least: just after garbage was collected
}

func (p *peaks) add(o peaks) {
	p.resident = max(p.resident, o.resident)
	if p.heap == 0 || o.heap < p.heap {
		p.heap = o.heap
	}
}

// watched lets time pass, and looks at a node's memory each second.
func (n *node) watched(t *testing.T, d time.Duration) (memory peaks) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); pass(time.Second) {
		memory.add(peaks{n.memory(t), int(n.metric(t, "go_memstats_heap_alloc_bytes"))})
	}
	return memory
}

// disturb is a minute of the soak.
func (s *scene) disturb(t *testing.T, broker *containers.KafkaSet, n int) (memory peaks) {
	t.Helper()
	s.mustCommand(t, "limit", "set", "provider", "--cap", "800", "--for", "10s", "--wait")
	memory = s.nodes[0].watched(t, 15*time.Second)
	stop(t, s.running()[1])
	memory.add(s.nodes[0].watched(t, 5*time.Second))
	s.startOne(t)
	memory.add(s.nodes[0].watched(t, 10*time.Second))
	switch n % 5 { //nolint:mnd // each of them twice in ten minutes
	case 1:
		_ = s.rdb.ShutdownNoSave(t.Context()).Err() // the container starts it again, without its data
	case 3:
		broker.Stop(1)
		broker.Start(1)
	}
	memory.add(s.nodes[0].watched(t, 15*time.Second))
	return memory
}

// holds looks at the fleet while nothing disturbs it. memory is of the minutes before.
func (s *scene) holds(t *testing.T, began time.Time, memory peaks) held {
	t.Helper()
	n := s.nodes[0]
	before := scriptsRun(t, s.rdb, "evalsha")
	pass(quietFor)
	after := scriptsRun(t, s.rdb, "evalsha")
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", n.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := s.rdb.DBSize(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	h := held{
		at: time.Since(began), memory: memory, goroutines: int(n.metric(t, "go_goroutines")), files: len(files),
		connections: n.connections(t, s.kafka.Addr) + n.connections(t, s.redis.Addr) + n.connections(t, s.judge.addr), keys: keys,
		late: n.metric(t, "dispatcher_limit_late_slots_total"),
	}
	h.redis = int(s.infoNumber(t, "memory", "used_memory"))
	if calls := after.calls - before.calls; calls > 0 {
		h.script = (after.took - before.took) / time.Duration(calls)
	}
	return h
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

const mib = 1 << 20

// figures are what is held, each with a unit of its own, and how it may differ at the end.
func (h held) figures() []heldFigure {
	return []heldFigure{
		{"most resident memory, MiB", float64(h.memory.resident) / mib, 0.2, 0},
		{"least heap, MiB", float64(h.memory.heap) / mib, 0.2, 20}, // a moment without partitions needs less
		{"goroutines", float64(h.goroutines), 0.1, 10},
		{"open files", float64(h.files), 0.1, 10},
		{"connections", float64(h.connections), 0.1, 10},
		{"keys in Redis", float64(h.keys), 0, 130}, // the calls of an hour lie in 120 keys
		{"memory of Redis, kB", float64(h.redis) / 1000, 0.2, 200},
		{"a script call, µs", float64(h.script.Microseconds()), 0.3, 0},
	}
}

// heldFigure may be more at the end: by a part of what it was, which depends on the load of the moment, and by plus.
type heldFigure struct {
	name       string
	value      float64
	part, plus float64
}

// grows prints both moments, and fails where something grew.
func grows(t *testing.T, early, end held) {
	t.Helper()
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(w, "after\t%v\t%v\t\n", early.at.Round(time.Second), end.at.Round(time.Second))
	_, _ = fmt.Fprintf(w, "late slots of node 1, in all\t%.0f\t%.0f\t\n", early.late, end.late)
	after := end.figures()
	for i, before := range early.figures() {
		_, _ = fmt.Fprintf(w, "%s\t%.0f\t%.0f\t\n", before.name, before.value, after[i].value)
	}
	_ = w.Flush()
	t.Logf("what is held:\n%s", &text)
	for i, before := range early.figures() {
		most := before.value*(1+before.part) + before.plus
		figure(t, after[i].value <= most, "%s: got %.0f at the end and %.0f early, want at most %.0f", before.name, after[i].value, before.value, most)
	}
}
