package integration

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"dispatcher/internal/provider"
)

var (
	// full makes TestNoRepeatsReal play its runs at full size: a quarter of an hour.
	full = flag.Bool("full", false, "play the runs with kills at full size")
	// seed repeats a run's choice of victims.
	seed = flag.Uint64("seed", 0, "which nodes are killed; 0: drawn by chance")
	// stranger shows what it costs when a new node does not take the dead one's name.
	stranger = flag.Bool("stranger", false, "in the runs with kills, the new node has a name of its own")
)

// killSize is how large a run with kills is.
type killSize struct {
	cap, jobs int
	kills     int           // so many, evenly spread over the calls; 0: by the clock
	every     time.Duration // by the clock
}

// sizeOfKills is small where nobody asks for more, so that it can be played with
// each change.
func sizeOfKills() killSize {
	if *full {
		return killSize{cap: 400, jobs: 60_000, every: 30 * time.Second}
	}
	return killSize{cap: 300, jobs: 7500, kills: 3}
}

const (
	killLatency = 200 * time.Millisecond
	killNodes   = 3
	killSession = 6 * time.Second
)

// kill is one of a run.
type kill struct {
	victim, successor *node
	at                time.Time // just before the signal
	read              time.Time // the dedup store had been read by then
	done              []string  // what Redis knew to be done
	claimed           int
}

// killing is a run with kills: three nodes, one of which, whichever, is killed
// with its calls on the wire and replaced, again and again.
type killing struct {
	*scene
	size  killSize
	name  string
	dedup bool
	draw  *rand.Rand
	began time.Time
	epoch time.Time // of the provider's clock: some milliseconds after the true one at most
	kills []kill

	arrivals []provider.Arrival
	report   provider.Report
}

// kill plays a run until all its jobs are settled.
func (w *servers) kill(t *testing.T, name string, settings ...string) *killing {
	t.Helper()
	chosen := *seed
	if chosen == 0 {
		chosen = rand.Uint64()
	}
	t.Logf("%s: -seed %d", name, chosen)
	size := sizeOfKills()
	settings = append(settings, "sender.http.timeout=2s", "kafka.drain=3s", "kafka.session="+killSession.String())
	k := &killing{
		scene: w.scene(t, size.cap, 12, killLatency, settings...), size: size, name: name,
		dedup: name != "none", draw: rand.New(rand.NewPCG(chosen, 0)),
	}
	k.enqueue(t, size.jobs)
	k.start(t, killNodes)
	k.play(t)
	k.settled(t, 2*time.Minute)
	k.keptDedup(t)
	stop(t, k.running()...)
	k.arrivals, k.report = k.judge.arrivals(t), k.judge.report(t, k.cap)
	kept(t, k.report)
	return k
}

// play kills until no more kills are due.
func (k *killing) play(t *testing.T) {
	t.Helper()
	k.listen(t)
	for k.next(t) {
		k.killOne(t)
	}
}

// listen waits for the first calls, and learns the provider's clock by them: the
// last call came before the answer that tells of it, so each answer says when
// that clock began at the latest.
func (k *killing) listen(t *testing.T) {
	t.Helper()
	eventually(t, time.Minute, func() bool {
		r := k.judge.report(t, k.cap)
		if began := time.Now().Add(-r.Last); r.Sent > 0 && (k.epoch.IsZero() || began.Before(k.epoch)) {
			k.epoch = began
		}
		return r.Sent >= k.cap
	}, func() string { return "no calls came" })
	k.began = time.Now()
}

// stamp is a time on the provider's clock: early by some milliseconds at most.
func (k *killing) stamp(at time.Time) time.Duration { return at.Sub(k.epoch) }

// next waits until a kill is due. There is none when all were made or, by the
// clock, when there is too little work left to see what it did. The clock asks
// the provider only then: to report is work, and holds the judge up.
func (k *killing) next(t *testing.T) bool {
	t.Helper()
	number := len(k.kills) + 1
	if k.size.every > 0 {
		pass(time.Until(k.began.Add(time.Duration(number) * k.size.every)))
		return k.judge.report(t, k.cap).Sent < k.size.jobs-15*k.cap
	}
	if number > k.size.kills {
		return false
	}
	k.judge.count(t, number*k.size.jobs/(k.size.kills+2), time.Minute)
	if number > 1 {
		last := k.kills[number-2].successor
		eventually(t, time.Minute, func() bool { code, _ := last.ready(t); return code == 200 },
			func() string { return fmt.Sprintf("node %d takes no part", last.number) })
	}
	return true
}

func (k *killing) killOne(t *testing.T) {
	t.Helper()
	nodes := k.running()
	one := kill{victim: nodes[k.draw.IntN(len(nodes))], at: time.Now()}
	one.victim.signal(t, syscall.SIGKILL)
	_ = one.victim.wait(t, 10*time.Second)
	if k.dedup {
		one.done, one.claimed = k.remembered(t)
	}
	one.read = time.Now()
	if *stranger {
		one.successor = k.startOne(t)
	} else {
		one.successor = k.startOne(t, "node="+one.victim.name)
		one.successor.name = one.victim.name
	}
	k.kills = append(k.kills, one)
}

// keptDedup expects that no node found the dedup store gone.
func (k *killing) keptDedup(t *testing.T) {
	t.Helper()
	if !k.dedup {
		return
	}
	for _, n := range k.running() {
		if lost := n.metric(t, "dispatcher_dedup_losses_total"); lost != 0 {
			t.Errorf("node %d says that Redis lost the dedup store %v times", n.number, lost)
		}
	}
}

// killOf is when a node was killed, if it was.
func (k *killing) killOf(node int) (number int, at time.Duration, ok bool) {
	for i, one := range k.kills {
		if one.victim.number == node {
			return i, k.stamp(one.at), true
		}
	}
	return 0, 0, false
}

// again is a call of a job that had been called before.
type again struct{ before, call provider.Arrival }

// repeats are the calls of jobs that had been called, each with the one before.
func (k *killing) repeats() (all []again) {
	last := map[string]provider.Arrival{}
	for _, a := range k.arrivals {
		if before, ok := last[a.Key]; ok {
			all = append(all, again{before, a})
		}
		last[a.Key] = a
	}
	return all
}

// called are the jobs that the provider has seen.
func (k *killing) called() map[string]bool {
	keys := map[string]bool{}
	for _, a := range k.arrivals {
		keys[a.Key] = true
	}
	return keys
}

// noneLost: each job was called, or is among those excused; and no others were.
func (k *killing) noneLost(t *testing.T, excused map[string]bool) {
	t.Helper()
	called := k.called()
	var lost []string
	for i := range k.size.jobs {
		if id := fmt.Sprint("job-", i); !called[id] && !excused[id] {
			lost = append(lost, id)
		}
		delete(called, fmt.Sprint("job-", i))
	}
	if len(lost) > 0 {
		t.Errorf("%d jobs were not called: %v", len(lost), lost[:min(len(lost), 10)])
	}
	if len(called) > 0 {
		t.Errorf("%d calls are of no job: %v", len(called), called)
	}
}
