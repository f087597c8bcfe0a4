package slots

import (
	"testing"
	"time"
)

func noGate(int) bool { return false }

// Slots of another epoch are not named: that timeline is gone.
func TestRefundsOfAnotherEpochAreForgotten(t *testing.T) {
	t.Parallel()
	var r Corrections
	for epoch := range int64(3) {
		r.Add(Correction{Charge: &Charge{Epoch: epoch, Job: Request{Cost: 1}}})
	}
	if got := r.Take(1, noGate); len(got) != 1 || got[0].Epoch != 1 {
		t.Errorf("got %v, want the one of epoch 1", got)
	}
	for range mostPassed + 1 {
		r.Add(Correction{Charge: &Charge{Epoch: 1, Job: Request{Cost: 1}}})
	}
	if got := r.Take(1, noGate); len(got) != mostPassed {
		t.Errorf("got %d for one call, want %d", len(got), mostPassed)
	}
	if got := r.Take(1, noGate); len(got) != 1 {
		t.Errorf("got %d for the next call, want the one that was left", len(got))
	}
	if _, some := r.Waiting(); some || r.WorthAsking(time.Now()) {
		t.Error("some are left, want none")
	}
}

// The provider counts a call whatever became of the timeline since. What was granted before a
// cooldown is given back no more.
func TestChargesOutliveAnEpoch(t *testing.T) {
	t.Parallel()
	var c Corrections
	c.Add(Correction{Charge: &Charge{Job: Request{Cost: 1}, At: 7, Epoch: 1}, Called: true, Difference: -2})
	c.Add(Correction{Charge: &Charge{Job: Request{Cost: 3}, At: 8, Epoch: 1}, Called: true, Difference: 2})
	c.Add(Correction{Charge: &Charge{Job: Request{Cost: 3}, At: 9, Epoch: 1}, Called: true, Until: 10})
	if got := c.Take(2, noGate); len(got) != 1 || got[0].At != 7 {
		t.Errorf("got %+v, want the charge alone", got)
	}
}

// What finds no room is not kept, and the caller hears of it.
func TestUnitsThatFindNoRoomAreNotLostSilently(t *testing.T) {
	t.Parallel()
	var c Corrections
	for range maxCorrections {
		if !c.GiveBack(&Charge{}) {
			t.Fatal("got no room, want some")
		}
	}
	if c.GiveBack(&Charge{}) {
		t.Error("got room for more, want none")
	}
}

// What was granted in another epoch is given back to gates whose counts outlive it, and to no others.
func TestAGateThatOutlivesAnEpochGetsItsUnitsBack(t *testing.T) {
	t.Parallel()
	var c Corrections
	passes := []Passed{{Value: Value{Gate: 0}}, {Value: Value{Gate: 1}}}
	c.GiveBack(&Charge{Job: Request{Cost: 1, Passes: passes}, At: 7, Epoch: 1})
	c.GiveBack(&Charge{Job: Request{Cost: 1, Passes: passes[:1]}, At: 8, Epoch: 1})
	c.Add(Correction{Charge: &Charge{Job: Request{Passes: passes}, Epoch: 1}, Called: true, Blocked: passes[1].Value, Until: 10})
	got := c.Take(2, func(gate int) bool { return gate == 1 })
	if len(got) != 1 || got[0].At != 7 || len(got[0].Job.Passes) != 1 || got[0].Job.Passes[0].Gate != 1 {
		t.Errorf("got %+v, want the first one for gate 1 alone", got)
	}
}
