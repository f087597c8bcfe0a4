package throttle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/internal/slots"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/quota"
)

// A gate on which the job has a cost of its own is left alone, as is a job whose count was right.
func TestOnlyLimitsThatCountTheSameAreReconciled(t *testing.T) {
	t.Parallel()
	l, err := New(Options{
		Redis: patient(t, miniredis.RunT(t).Addr()), Namespace: "ns", Name: "account", Limit: specOf(contract(300)),
		Gates: []Gate{{Name: "messages", Limit: specOf(contract(5))}, {Name: "segments", Limit: specOf(contract(5))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &reserver{Limiter: l, lanes: make([]lane, 1), kind: algorithm(limit.TokenBucket)}
	same, own := Passed{Value: Value{Gate: 1}}, Passed{Value: Value{Gate: 0}, Units: 1}
	job := Request{Cost: 3, Passes: []Passed{own, same}}
	slot := l.charged(job, 7, 1)
	for _, row := range []struct {
		counted int64
		first   []script.Correction // a timeline takes nothing back
		gates   []script.StateCorrection
	}{
		{counted: 3},
		{5, []script.Correction{{Slot: 7, Units: -2}}, []script.StateCorrection{{Correction: script.Correction{Slot: 7, Units: -2}}}},
		{0, nil, []script.StateCorrection{{Correction: script.Correction{Slot: 7, Units: 3}}}},
	} {
		l.Reconcile(slot, job, row.counted)
		all := l.corrections.Take(1, l.gates.Outlives)
		g := r.gatesOf(nil, all)
		if first := r.firstOf(all); !slices.Equal(first, row.first) || !slices.Equal(g.Corrections, row.gates) {
			t.Errorf("counted %d: got %+v and %+v, want %+v and %+v", row.counted, first, g.Corrections, row.first, row.gates)
		}
		if len(g.States) > 0 && g.States[0].Gate != 1 {
			t.Errorf("counted %d: got gate %d, want the one that counts the same", row.counted, g.States[0].Gate)
		}
	}
}

// windowOf is how many units of a window begin, by a node that asks again and again and owes so many at
// the beginning.
func windowOf(t *testing.T, a limit.Algorithm, owed int64, idle bool) (given int) {
	t.Helper()
	tr := newTrial(t, "", a, trialContract(a, time.Second), 1)
	tr.unused = []script.Correction{{Slot: tr.now, Units: -owed}}
	tr.reserve(0, 1)
	if idle {
		tr.pass(3 * limit.Windowed(tr.c).Microseconds())
	}
	tr.grants = nil
	end := tr.now + tr.c.Window.Microseconds()
	for ; tr.now < end; tr.pass(2_000) {
		tr.reserve(0, 1)
	}
	for _, at := range tr.grants {
		if at < end {
			given++
		}
	}
	return given
}

// Units that the provider counted beside those of a slot are granted to nobody, ahead of all jobs,
// and once. A provider counts for one window: what is owed longer would only stop the fleet.
func TestUnitsThatAreOwedGoFirst(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, a := range embeddedAlgorithms() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			most := windowOf(t, a, 0, false)
			owed := int64(most) / 2
			if lost := most - windowOf(t, a, owed, false); lost < int(owed)-2 || lost > int(owed)+2 {
				t.Errorf("got %d units fewer of %d in a window, want the %d that are owed", lost, most, owed)
			}
		})
	}
}

func TestUnitsThatAreOwedAreForgotten(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, a := range embeddedAlgorithms() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			if most, got := windowOf(t, a, 0, true), windowOf(t, a, 1_000_000, true); got < most-2 {
				t.Errorf("got %d units in a window long after too many were owed, want %d", got, most)
			}
		})
	}
}

// Charges and blocks of a call that failed come again, with the first call that may heed them. Units that are
// given back do not: the script may have heeded them.
func TestChargesOfACallThatFailedComeAgain(t *testing.T) {
	t.Parallel()
	// Without gates the call that follows is a retry, which may get the slots of the lost reply.
	callsThatFail(t, nil, "1 false [{7 -2} {8 2}] 0", "1 true [] 0", "0 false [{7 -2}] 0", "0 false [] 0")
	callsThatFail(t, []Gate{{Name: "recipient", Limit: specOf(contract(1))}}, "1 false [{7 -2} {8 2}] 1", "1 false [{7 -2}] 1", "0 false [] 0", "0 false [] 0")
}

// callsThatFail makes a call that fails and three that do not, where one slot is owed units, one is to be given back and, with
// gates, a value is blocked. want is what each call says: the units wanted, whether it is a retry, the corrections
// and how many blocks.
func callsThatFail(t *testing.T, gates []Gate, want ...string) {
	t.Helper()
	l, err := New(Options{Redis: patient(t, miniredis.RunT(t).Addr()), Namespace: "ns", Name: "account", Limit: specOf(contract(300)), Gates: gates})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	failing := true
	l.reserve = func(_ context.Context, a script.Ask) (script.Reservation, error) {
		blocks := slices.DeleteFunc(a.Gates.Corrections, func(c script.StateCorrection) bool { return !c.Block })
		got = append(got, fmt.Sprint(a.Want, a.Retry, a.Corrections, len(blocks)))
		if failing {
			return script.Reservation{}, errors.New("no answer")
		}
		return script.Reservation{Now: 10, Epoch: 1, Settings: a.Known, Schedule: clock.Schedule{Units: 1, Period: 1}}, nil
	}
	r := &reserver{
		Limiter: l, lanes: make([]lane, 1), clock: clock.Clock{Origin: time.Now(), Epoch: 1}, known: l.State().Settings,
		kind: algorithm(limit.SlidingWindowLog), learned: true, seq: 1,
	}
	l.refunds.Store(true)
	job := Request{Cost: 3}
	l.Reconcile(l.charged(job, 7, 1), job, 5)
	l.Reconcile(l.charged(job, 8, 1), job, 1)
	if len(gates) > 0 {
		l.Block(l.charged(job, 9, 1), job, Value{}, time.Second)
	}
	asked := func() []request { return []request{{Request: Request{Cost: 1}, answer: &Answer{}}} }
	r.call(t.Context(), 0, asked())
	failing = false
	r.call(t.Context(), 0, asked())
	r.call(t.Context(), 0, nil)
	r.call(t.Context(), 0, nil)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A provider may ask for anything. A value waits for a second at least and for ten minutes at most; of a quota, the answer is
// taken as one about the first limit.
func TestABlockOfAValueIsBounded(t *testing.T) {
	t.Parallel()
	daily := limit.Spec{Terms: limit.Terms{Contract: contract(1000), Quota: quota.Quota{Calendar: "day"}}}
	daily.Window = 0
	daily.Terms = daily.Beside(specOf(contract(300)).Terms)
	l, err := New(Options{
		Redis: patient(t, miniredis.RunT(t).Addr()), Namespace: "ns", Name: "account", Limit: specOf(contract(300)),
		Gates: []Gate{{Name: "recipient", Limit: specOf(contract(1))}, {Name: "daily", Limit: daily}},
	})
	if err != nil {
		t.Fatal(err)
	}
	const at = 1_700_000_000_000_000
	for asked, want := range map[time.Duration]time.Duration{
		0: time.Second, -time.Hour: time.Second, 30 * time.Second: 30 * time.Second, 365 * 24 * time.Hour: 10 * time.Minute,
	} {
		l.Block(l.charged(Request{Cost: 1}, at, 1), Request{Cost: 1}, Value{Gate: 0}, asked)
		all := l.corrections.Take(1, l.gates.Outlives)
		if len(all) != 1 {
			t.Fatalf("asked for %v: got %d corrections, want the block", asked, len(all))
		}
		if lasts := clock.Duration(all[0].Until - at); lasts < want || lasts > want+10*time.Second {
			t.Errorf("asked for %v: got a block of %v, want %v and the time since the slot", asked, lasts, want)
		}
	}
	l.Block(l.charged(Request{Cost: 1}, at, 1), Request{Cost: 1}, Value{Gate: 1}, time.Minute)
	if all := l.corrections.Take(1, l.gates.Outlives); len(all) > 0 || l.answers.Counts().Refused != 1 {
		t.Errorf("got %+v and %+v, want a refused call of the first limit", all, l.answers.Counts())
	}
}

// A node that is notified of changes polls seldom. Corrections don't wait for that, unless the poll
// would cost the node its place in the queue.
func TestCorrectionsAreWorthAPoll(t *testing.T) {
	t.Parallel()
	l, err := New(Options{Redis: patient(t, miniredis.RunT(t).Addr()), Namespace: "ns", Name: "account", Limit: specOf(contract(300))})
	if err != nil {
		t.Fatal(err)
	}
	l.notices.Notified.Store(true)
	now := time.Now()
	r := &reserver{Limiter: l, lanes: make([]lane, 1), clock: clock.Clock{Origin: now, Epoch: 1}, known: l.State().Settings, calledAt: now}
	if due := r.pollDue(now).Sub(now); due != idleEvery {
		t.Fatalf("got a poll after %s without corrections, want it after %s", due, idleEvery)
	}
	l.Reconcile(l.charged(Request{Cost: 1}, 7, 1), Request{Cost: 1}, 2)
	if due := r.pollDue(now).Sub(now); due > slots.Gather+time.Second {
		t.Errorf("got a poll after %s, want it soon", due)
	}
	r.lanes[0].place.Taken = true
	if due := r.pollDue(now).Sub(now); due != idleEvery {
		t.Errorf("got a poll after %s of a node in the queue, want it after %s", due, idleEvery)
	}
}
