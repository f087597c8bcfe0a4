package limit

import (
	"cmp"
	"math"
	"time"

	"dispatcher/internal/fault"
	"dispatcher/throttle/limit/quota"
)

// MaxGateWindow is the longest window of a gate: after Redis lost its state, a gate grants
// nothing for a whole window.
const MaxGateWindow = time.Minute

// MaxGates is how many limits a job may count on after the first.
const MaxGates = 15

// Beside are the terms of a gate beside the first limit. A gate keeps its cap and the exceptions
// to it, its window, its largest cost and its pause. The first limit has all other terms.
func (t Terms) Beside(first Terms) Terms {
	c := first.Contract
	c.Cap, c.Window, c.MaxCost = t.Cap, t.Window, t.MaxCost
	c.Burst, c.MaxInFlight, c.Reserve, c.MaxNodes, c.IgnoreThrottled = 1, 0, 0, 0, false
	if t.IsQuota() && t.Window == 0 {
		c.Window = t.WindowLength()
	}
	return Terms{Contract: c, Algorithm: TokenBucket, Gate: true, Quota: t.Quota, Exceptions: t.Exceptions, Paused: t.Paused}
}

// validateGate refuses terms that no gate can keep, with a [fault.Error] for each. A gate keeps
// the earliest time of its next unit and nothing else, so all its units are
// [Contract.GateSpacing] apart.
func (t Terms) validateGate() error {
	var faults fault.List
	faults.Refuse(cmp.Or(t.Algorithm, DefaultAlgorithm) != TokenBucket, "algorithm", t.Algorithm, "must be %s: only the first limit may have another algorithm", TokenBucket)
	faults.Refuse(t.Burst != 1, "burst", t.Burst, "must be 1: only the first limit may have a burst")
	const none = "must be 0: only the first limit may have one"
	faults.Refuse(t.MaxInFlight != 0, "max_in_flight", t.MaxInFlight, none)
	faults.Refuse(t.IgnoreThrottled, "ignore_throttled", t.IgnoreThrottled, "is for the first limit: a provider that refuses calls slows that one down")
	faults.Refuse(t.Reserve != 0, "reserve", t.Reserve, none)
	faults.Refuse(t.MaxNodes != 0, "max_nodes", t.MaxNodes, none)
	bounded := t.IsQuota() || t.Window >= time.Millisecond && t.Window <= MaxGateWindow
	faults.Refuse(!bounded, "window", t.Window, "must be from 1ms to 1m beside the first limit; what is longer is a quota: state calendar or rolling instead")
	faults.Under("", t.Quota.Validate())
	faults.Refuse(t.IsQuota() && t.WindowLength() > 0 && t.Window != t.WindowLength(), "window", t.Window, "is that of the quota's calendar or rolling: leave it out")
	for _, e := range fault.All(t.Beside(t).Contract.Validate()) {
		faults.Refuse(bounded || e.Field != "window", e.Field, e.Value, "%s", e.Remedy)
	}
	t.checkExceptions(&faults)
	return faults.Err()
}

// wasteOfGate refuses a gate that leaves less than [LeastShare] of its cap.
func (t Terms) wasteOfGate() error {
	var faults fault.List
	left := t.GateShare()
	if t.LargestCost() > 1 {
		faults.Refuse(left < LeastShare, "max_cost", t.MaxCost,
			"leaves %.3f of the cap, since a job may come in any window; at least %g is to be left: lower it, or raise the cap", left, LeastShare)
	} else {
		faults.Refuse(left < LeastShare, "cap", t.Cap,
			"uses %.3f of itself: two units are at least 1µs apart; at least %g is to be used: lower it, or choose a longer window", left, LeastShare)
	}
	return faults.Err()
}

// GateSpacing is the time between two units of a gate; 0: of a quota, which keeps none.
func (t Terms) GateSpacing() time.Duration {
	if t.IsQuota() {
		return 0
	}
	return t.Contract.GateSpacing()
}

// GateShare is the part of the cap, from 0 to 1, that a gate leaves while jobs wait.
func (t Terms) GateShare() float64 {
	switch {
	case t.Rolling > 0:
		return t.Rolling.Seconds() / (t.Rolling.Seconds()*(1+1.0/quota.Parts) + t.Guard.Seconds())
	case t.IsQuota():
		return 1
	}
	return t.Contract.GateShare()
}

// WindowText is the window for people.
func (t Terms) WindowText() string {
	switch {
	case t.Calendar != "" && t.Zone != "":
		return "each " + t.Calendar + " of " + t.Zone
	case t.Calendar != "":
		return "each " + t.Calendar + " of UTC"
	}
	return "any " + t.Window.String()
}

// GateSpacing is the time between two units of a gate, in whole microseconds. The units of a
// job go at once, so a window holds up to MaxCost − 1 units more than the spacing alone tells.
func (c Contract) GateSpacing() time.Duration {
	return time.Duration(ceilDiv((c.Window+c.Guard).Microseconds(), max(1, c.Cap-c.LargestCost()+1))) * time.Microsecond
}

// GateShare is the part of the cap, from 0 to 1, that a gate leaves while jobs wait.
func (c Contract) GateShare() float64 {
	return math.Min(1, c.Window.Seconds()/c.GateSpacing().Seconds()/float64(c.Cap))
}
