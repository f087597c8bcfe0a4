package throttle

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// witnessed is a fleet of nodes that read one clock, and say of it what a test lets
// them say.
type witnessed struct {
	*testing.T
	mini  *miniredis.Miniredis
	nodes []*rolloutNode
	now   int64
}

func newWitnessed(t *testing.T, nodes int, c limit.Contract) *witnessed {
	t.Helper()
	w := &witnessed{T: t, mini: miniredis.RunT(t), now: 1_700_000_000_000_000}
	rdb := patient(t, w.mini.Addr())
	w.mini.SetTime(time.UnixMicro(w.now))
	for i := range nodes {
		w.nodes = append(w.nodes, &rolloutNode{Scripts: script.NewScripts(rdb, "step", "provider", string(rune('a'+i))), known: seeded(c), seq: 1})
	}
	for range 3 { // the first one begins, the others come, and all read the clock again
		for i := range nodes {
			w.call(i, 0, false)
		}
		w.pass(time.Second)
	}
	return w
}

func (w *witnessed) pass(d time.Duration) {
	w.now += d.Microseconds()
	w.mini.SetTime(time.UnixMicro(w.now))
}

// call lets a node ask for units, and say whether it saw the clock step.
func (w *witnessed) call(node int, want int64, stepped bool) script.Reservation {
	w.Helper()
	n := w.nodes[node]
	n.seq++
	b, err := n.Scripts.Reserve(w.Context(), script.Ask{
		Want: want, Seq: n.seq, Epoch: n.epoch, Stepped: stepped, Since: n.since, Read: n.read, Identity: string(IdentityNone),
		Nearest: nearest, Learned: n.learned, Known: n.known,
	})
	if err != nil {
		w.Fatal(err)
	}
	if n.epoch != b.Epoch || stepped {
		n.since = b.Now
	}
	n.known, n.learned, n.epoch, n.read = b.Settings, true, b.Epoch, b.Now
	return b
}

func (w *witnessed) mustGrant(node int, want bool, when string) {
	w.Helper()
	w.pass(50 * time.Millisecond)
	if b := w.call(node, 1, false); (b.Schedule.Given > 0) != want || b.Cooldown != script.CooldownNone {
		w.Errorf("%s: got %d units and %v, want units: %v", when, b.Schedule.Given, b.Cooldown, want)
	}
}

// A step of the clock that one node alone sees is its own: nothing is granted
// until another node has read the clock again, and there is no cooldown. With an
// hourly window that one would last for an hour.
func TestOneNodesStepIsNotTheFleets(t *testing.T) {
	t.Parallel()
	w := newWitnessed(t, 3, contractOf(5000, time.Hour))
	w.pass(time.Second)
	w.mustGrant(0, true, "before")
	if b := w.call(1, 0, true); b.Cooldown != script.CooldownNone || b.Poll > 100*time.Millisecond {
		t.Errorf("got %v and the next poll after %v, want no cooldown and a poll at once", b.Cooldown, b.Poll)
	}
	w.mustGrant(1, false, "by the node that reports")
	w.mustGrant(0, false, "by a node that has not read the clock since")
	w.pass(time.Second)
	w.mustGrant(0, true, "by a node that has")
	w.pass(time.Second)
	w.mustGrant(1, true, "afterwards, by the node that reported")
	w.pass(time.Second)
	w.call(1, 0, true)
	w.mustGrant(2, true, "by others, when the same node reports again at once")
}

// Two nodes that see a step confirm each other, at once or soon after.
func TestTwoNodesConfirmAStep(t *testing.T) {
	t.Parallel()
	for _, between := range []time.Duration{0, 300 * time.Millisecond, 4 * time.Second} {
		w := newWitnessed(t, 3, contract(300))
		w.call(0, 0, true)
		if between > 0 {
			w.call(2, 0, false)
			w.pass(between)
			w.call(2, 0, false) // which denies it
		}
		if b := w.call(1, 0, true); b.Cooldown != script.CooldownClockStep {
			t.Errorf("%v after the first report: got %v, want %v", between, b.Cooldown, script.CooldownClockStep)
		}
	}
}

// Where nobody is there that could tell, one report is enough: alone, with a node
// that came after the step, and with nodes that don't answer.
func TestAStepCountsWhereNobodyCanTell(t *testing.T) {
	t.Parallel()
	alone := newWitnessed(t, 1, contract(300))
	if b := alone.call(0, 0, true); b.Cooldown != script.CooldownClockStep {
		t.Errorf("alone: got %v, want %v", b.Cooldown, script.CooldownClockStep)
	}
	late := newWitnessed(t, 2, contract(300))
	late.nodes[1].epoch, late.nodes[1].since, late.nodes[1].read = 0, 0, 0 // it starts again
	late.call(1, 0, false)
	late.call(1, 0, false)
	if b := late.call(0, 0, true); b.Cooldown != script.CooldownClockStep {
		t.Errorf("beside a node that has just come: got %v, want %v", b.Cooldown, script.CooldownClockStep)
	}
	silent := newWitnessed(t, 2, contract(300))
	silent.call(0, 0, true)
	silent.pass(400 * time.Millisecond)
	if b := silent.call(0, 1, false); b.Cooldown != script.CooldownNone || b.Schedule.Given > 0 {
		t.Errorf("while another may answer: got %v and %d units, want none", b.Cooldown, b.Schedule.Given)
	}
	silent.pass(200 * time.Millisecond)
	if b := silent.call(0, 1, false); b.Cooldown != script.CooldownClockStep {
		t.Errorf("when it has not: got %v, want %v", b.Cooldown, script.CooldownClockStep)
	}
}
