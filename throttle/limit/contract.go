package limit

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"dispatcher/internal/fault"
	"dispatcher/throttle/limit/quota"
)

// Contract is the operator's statement: at most Cap units in any Window. The
// other fields say how the fleet keeps it. Rate, spacing and guard time follow from it. Each limit has one.
//
// The tags are the keys of the configuration and of the settings in Redis. All
// durations have a resolution of one microsecond.
type Contract struct {
	Cap    int64         `yaml:"cap" json:"cap"`       // units the provider allows in any Window
	Window time.Duration `yaml:"window" json:"window"` // the provider's window, wherever it begins
	Burst  int64         `yaml:"burst" json:"burst"`   // units that may go at once after a pause; paid for out of the sustained rate

	// MaxCost is how many units one job counts, at most; 0: 1. A job's units go at once, so
	// an algorithm that reserves ahead pays for it as for a burst.
	MaxCost int64 `yaml:"max_cost" json:"max_cost"`

	// MaxInFlight is how many calls may be in flight at once, on all nodes together, from the
	// grant of a slot until the answer; 0: no bound.
	MaxInFlight int64 `yaml:"max_in_flight" json:"max_in_flight"`

	Guard    time.Duration `yaml:"-" json:"guard"`           // by how much delivery times may spread: Lateness, and the way to the provider
	Auto     bool          `yaml:"-" json:"auto"`            // the fleet chooses Lateness, and Guard with it, by how late its slots are
	Lateness time.Duration `yaml:"lateness" json:"lateness"` // how long after its time a slot may still be used
	Spread   time.Duration `yaml:"spread" json:"spread"`     // by how much the way to the provider differs; with Auto, Guard is Lateness + Spread
	Horizon  time.Duration `yaml:"horizon" json:"horizon"`   // how far ahead slots are reserved; also how long a change takes to act

	// IgnoreThrottled: calls that the provider refuses for their rate slow nothing down but their own jobs.
	IgnoreThrottled bool `yaml:"ignore_throttled" json:"ignore_throttled"`

	Reserve  int64 `yaml:"reserve" json:"reserve"`     // units of Cap that Redis never gives out: nodes use them while Redis is away
	MaxNodes int64 `yaml:"max_nodes" json:"max_nodes"` // that lease a part of the reserve; required where there is one
}

// What configs/default.yaml states, for programs without a file.
const (
	DefaultBurst    = 1
	DefaultGuard    = 10 * time.Millisecond
	DefaultLateness = 3 * time.Millisecond
	DefaultSpread   = 7 * time.Millisecond
	DefaultHorizon  = 200 * time.Millisecond
)

// Bounds that [Contract.Validate] holds a contract to.
const (
	MinLateness     = time.Millisecond       // less, and timers alone would be late
	MinSpread       = 100 * time.Microsecond // less, and no network would do
	MinWindowGuards = 10                     // a window is at least this many guards, or the guard eats the cap
	MinHorizon      = 20 * time.Millisecond  // less, and a node can't reserve before it needs
	MaxHorizon      = 300 * time.Millisecond // more, and a change would act too late
	MaxCap          = 1_000_000_000
	MaxWindow       = quota.MaxWindow
	MaxUnits        = 1 << 21 // of a pace that is counted exactly: see [Contract.Pace]
)

// Validate says whether the contract can be kept: a [fault.Error] for each field
// that stands in the way.
func (c Contract) Validate() error {
	var faults fault.List
	faults.Refuse(c.Cap < 1 || c.Cap > MaxCap, "cap", c.Cap, "must be from 1 to %d", MaxCap)
	faults.Between("window", c.Window, time.Millisecond, MaxWindow)
	faults.Between("guard", c.Guard, time.Millisecond, time.Minute)
	faults.Refuse(c.Burst < 1, "burst", c.Burst, "must be at least 1")
	faults.Refuse(c.Burst > c.Cap && c.Cap >= 1, "burst", c.Burst, "must not be above the cap of %d", c.Cap)
	c.checkCost(&faults)
	faults.Refuse(c.MaxInFlight < 0 || c.MaxInFlight > MaxCap, "max_in_flight", c.MaxInFlight, "must be from 0 to %d; 0 is no bound", MaxCap)
	faults.Refuse(c.MaxInFlight > 0 && c.Reserve > 0, "max_in_flight", c.MaxInFlight,
		"can't be kept by nodes that use a reserve without Redis: must be 0 with a reserve")
	c.checkReserve(&faults)
	faults.Refuse(c.Window < MinWindowGuards*c.Guard, "window", c.Window,
		"must be at least %d times the guard of %s, or the guard eats the cap", MinWindowGuards, c.Guard)
	faults.Refuse(c.Lateness < MinLateness, "lateness", c.Lateness, "must be at least %s, or no slot could be used", MinLateness)
	faults.Refuse(c.Lateness >= c.Guard, "lateness", c.Lateness, "must be below the guard of %s", c.Guard)
	c.checkAuto(&faults)
	faults.Between("horizon", c.Horizon, MinHorizon, MaxHorizon)
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"window", c.Window}, {"guard", c.Guard}, {"lateness", c.Lateness}, {"spread", c.Spread}, {"horizon", c.Horizon}} {
		faults.Refuse(d.value%time.Microsecond != 0, d.field, d.value, "must be whole microseconds")
	}
	return faults.Err()
}

// checkCost: the largest job must find room beside the burst and the reserve, and in a
// node's part of the reserve.
func (c Contract) checkCost(faults *fault.List) {
	left := c.Cap - c.Reserve - c.Burst + 1
	switch {
	case c.MaxCost < 0:
		faults.Refuse(true, "max_cost", c.MaxCost, "must be at least 1")
	case c.MaxCost > left && c.MaxCost > 1:
		faults.Refuse(true, "max_cost", c.MaxCost, "must be at most %d, which is what burst and reserve leave of the cap of %d", left, c.Cap)
	case c.MaxCost > c.UnitsOfNode() && c.MaxCost > 1 && c.MaxNodes > 0:
		faults.Refuse(true, "max_cost", c.MaxCost, "must be at most %d, a node's part of the reserve", c.UnitsOfNode())
	}
}

// LargestCost is how many units one job counts, at most: at least 1.
func (c Contract) LargestCost() int64 { return max(1, c.MaxCost) }

// checkReserve: a node that can't ask Redis may send whole units only, and Redis must
// not give these out as well.
func (c Contract) checkReserve(faults *fault.List) {
	switch {
	case c.Reserve == 0 && c.MaxNodes == 0:
	case c.Reserve < 1:
		faults.Refuse(true, "reserve", c.Reserve, "must be at least 1 with max_nodes, or both 0")
	case c.MaxNodes < 1:
		faults.Refuse(true, "max_nodes", c.MaxNodes, "must say among how many nodes the reserve of %d is divided", c.Reserve)
	case c.Reserve%c.MaxNodes != 0:
		faults.Refuse(true, "reserve", c.Reserve, "for %d nodes is %.4g units each: must be a multiple of max_nodes, for only whole units keep the cap",
			c.MaxNodes, float64(c.Reserve)/float64(c.MaxNodes))
	case c.Reserve+max(c.Burst, 1) > c.Cap:
		faults.Refuse(true, "reserve", c.Reserve, "must leave more of the cap of %d than the burst of %d", c.Cap, c.Burst)
	}
}

// checkAuto: a guard that the fleet chooses follows from the lateness.
func (c Contract) checkAuto(faults *fault.List) {
	faults.Refuse(c.Spread != 0 && (c.Spread < MinSpread || c.Spread > time.Minute) || c.Auto && c.Spread == 0,
		"spread", c.Spread, "must be from %s to 1m", MinSpread)
	faults.Refuse(c.Auto && c.Guard != c.Lateness+c.Spread, "guard", c.Guard,
		"must be the lateness of %s and the spread of %s where the guard is auto", c.Lateness, c.Spread)
}

// LogValue shows the contract in one line.
func (c Contract) LogValue() slog.Value { return slog.StringValue(c.String()) }

// String is the contract in one line.
func (c Contract) String() string {
	guard := c.Guard.String()
	if c.Auto {
		guard = "auto (" + guard + ")"
	}
	text := fmt.Sprintf("%d in %s, burst %d, guard %s, lateness %s, horizon %s", c.Cap, c.Window, c.Burst, guard, c.Lateness, c.Horizon)
	if c.MaxInFlight > 0 {
		text += fmt.Sprintf(", %d calls in flight", c.MaxInFlight)
	}
	if c.MaxCost > 1 {
		text += fmt.Sprintf(", jobs of up to %d units", c.MaxCost)
	}
	return text
}

// Pace is the sustained rate: units slots in every period microseconds, as a
// reduced fraction. A slot and the Cap-th behind it then lie at least
// Window + Guard apart, whatever burst was taken: a bucket of Burst that is
// refilled at (Cap − Burst + 1) / (Window + Guard) lets no more than Cap pass
// in Window + Guard.
//
// All units of a job go at its first slot. So a window holds the slots in it and, of its
// last job, up to MaxCost − 1 units more. The pace is lower by as many.
//
// The pace is exact for every cap up to 2,097,152, whatever the window. A fraction
// of which both numbers are above that is rounded to the slower side, by less
// than two parts in a million: a script's numbers hold no longer rests exactly.
func (c Contract) Pace() (units, period int64) {
	units = c.Cap - c.Reserve - c.Burst + 1 - (c.LargestCost() - 1)
	return reduced(units, Windowed(c).Microseconds())
}

// reduced is a pace of which the smaller number is at most [MaxUnits], and which is no faster. A script keeps it exactly.
func reduced(units, period int64) (slowerUnits, slowerPeriod int64) {
	d := gcd(units, period)
	units, period = units/d, period/d
	d = ceilDiv(min(units, period), MaxUnits)
	return units / d, ceilDiv(period, d)
}

// Share is the part of the cap, from 0 to 1, that can be used while jobs wait.
func (c Contract) Share() float64 {
	units, period := c.Pace()
	return float64(units) / float64(period) * float64(c.Window.Microseconds()) / float64(c.Cap)
}

// Spacing is the time between two slots of the sustained rate.
func (c Contract) Spacing() time.Duration { return spacing(c.Pace()) }

// spacing is the time between two slots of a pace.
func spacing(units, period int64) time.Duration {
	return time.Duration(math.Ceil(float64(period)*1000/float64(units))) * time.Nanosecond
}

// UnitsOfNode is how many units a node may use in any Window + Guard while it can't
// ask Redis: 0 where there is no reserve.
func (c Contract) UnitsOfNode() int64 {
	if c.MaxNodes == 0 {
		return 0
	}
	return c.Reserve / c.MaxNodes
}

// Reaction is how long a change of the settings takes, at most, to hold for
// every call: a node may be using slots it reserved just before.
func (c Contract) Reaction() time.Duration { return c.Horizon + c.Lateness }

// How often nodes call Redis without a job.
const (
	PollEvery = 200 * time.Millisecond // how often a node polls that gets no notifications
	PollMost  = 2 * time.Second        // the longest [Contract.PollInterval]
)

// PollInterval is for how long a node that has just started reserves nothing, so that the others
// can tell it of a step of Redis's clock. At low rates that is longer: it is less than a spacing there.
func (c Contract) PollInterval() time.Duration {
	return min(max(PollEvery, c.Spacing()/5), PollMost)
}

// Relearn is how long nothing is granted after Redis lost its settings, at least:
// each node has polled in that time and has restored the newest.
func (c Contract) Relearn() time.Duration { return c.PollInterval() * 5 / 2 }

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// ceilDiv is a / b, rounded up, for numbers above 0.
func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
