package slots

import (
	"slices"
	"sync"
	"time"
)

// Charge is what a slot counts: its job, on all limits.
type Charge struct {
	Job   Request
	At    int64 // the slot on Redis's clock, in µs
	Epoch int64
}

// Correction changes what a slot counts. Its job was not called, or the provider counted otherwise. Or the
// provider refused the call for the value of a gate, which is blocked.
type Correction struct {
	*Charge

	Called     bool
	Difference int64 // of a job that was called: units to be given back; negative: to be charged
	Blocked    Value // until a time
	Until      int64 // on Redis's clock, in µs; 0: nothing is blocked
}

// Blocks reports whether it is a block.
func (c Correction) Blocks() bool { return c.Until > 0 }

// OnFirst is how many units are given back to the first limit; negative: charged.
func (c Correction) OnFirst() int64 {
	if c.Called {
		return c.Difference
	}
	return max(1, c.Job.Cost)
}

// On is the same of a gate. What the provider counts is the first limit's, so a gate where the
// job has a cost of its own is left alone.
func (c Correction) On(p Passed) int64 {
	switch {
	case !c.Called:
		return c.Job.Counts(p)
	case p.Units == 0:
		return c.Difference
	}
	return 0
}

// only is the same without the gates that another epoch knows nothing of.
func (c Correction) only(outlives func(gate int) bool) Correction {
	of := *c.Charge
	of.Job.Passes = slices.DeleteFunc(slices.Clone(of.Job.Passes), func(p Passed) bool { return !outlives(p.Gate) })
	c.Charge = &of
	return c
}

// A block of a value lasts as long as the provider asks, within these bounds.
const (
	leastBlock = time.Second // also where the provider does not say how long
	mostBlock  = 10 * time.Minute
)

const (
	maxCorrections = 1000 // that wait
	mostPassed     = 128  // of them that one call passes on: each names a state of each gate
)

// Corrections are those that no call has passed on yet. The zero value has none.
type Corrections struct {
	mu    sync.Mutex
	all   []Correction
	since time.Time // of the first one
}

// Reconcile adds that the provider counted a call otherwise: units to be given back; negative: to be charged. It reports
// whether there was room.
func (c *Corrections) Reconcile(of *Charge, difference int64) (kept bool) {
	return c.Add(Correction{Charge: of, Called: true, Difference: difference})
}

// Block adds that the provider refused the call of a slot for a value, for as long as it asks.
func (c *Corrections) Block(s Slot, of Value, asked time.Duration) {
	lasts := time.Since(s.NotBefore) + min(max(asked, leastBlock), mostBlock)
	c.Add(Correction{Charge: s.charge, Called: true, Blocked: of, Until: s.charge.At + lasts.Microseconds()})
}

// GiveBack adds that a job was not called. It reports whether there was room.
func (c *Corrections) GiveBack(of *Charge) (kept bool) { return c.Add(Correction{Charge: of}) }

// Add reports whether there was room.
func (c *Corrections) Add(one Correction) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) >= maxCorrections {
		return false
	}
	if len(c.all) == 0 {
		c.since = time.Now()
	}
	c.all = append(c.all, one)
	return true
}

// Waiting reports since when there are some.
func (c *Corrections) Waiting() (since time.Time, some bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since, len(c.all) > 0
}

// WorthAsking reports whether units that are given back are worth a reservation at now: at once
// where their job asks again, else so many as have gathered.
func (c *Corrections) WorthAsking(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	gathered := now.Sub(c.since) >= Gather
	return slices.ContainsFunc(c.all, func(one Correction) bool { return !one.Called || gathered && one.OnFirst() > 0 })
}

// ChargeAgain keeps the charges and blocks of a call that failed. If the script did heed them, they are
// charged twice: that only lowers the rate.
func (c *Corrections) ChargeAgain(all []Correction) {
	for _, one := range all {
		if one.OnFirst() < 0 || one.Blocks() {
			c.Add(one)
		}
	}
}

// Unheeded keeps all corrections of a call that was answered in another epoch: its script heeded none.
func (c *Corrections) Unheeded(all []Correction) {
	for _, one := range all {
		c.Add(one)
	}
}

// Take takes the first ones. What was granted in another epoch is given back to those gates alone whose counts outlive
// it, and its clock may be another one for blocks; charges are no slot's. The caller gives nothing of another epoch back to
// the first limit.
func (c *Corrections) Take(epoch int64, outlives func(gate int) bool) []Correction {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.all[:min(len(c.all), mostPassed)]
	c.all = slices.Clone(c.all[len(all):])
	for i, one := range all {
		if one.Epoch != epoch && one.OnFirst() > 0 {
			all[i] = one.only(outlives)
		}
	}
	return slices.DeleteFunc(all, func(one Correction) bool {
		return one.Epoch != epoch && (one.Blocks() || one.OnFirst() > 0 && len(one.Job.Passes) == 0)
	})
}

// Gather is how long corrections wait for a reservation that passes them on. Without one
// they are worth a poll.
const Gather = 50 * time.Millisecond
