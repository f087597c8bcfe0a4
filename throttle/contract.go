package throttle

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"
)

// Contract is what the operator states: at most Cap units in any Window. The
// rest says how the fleet keeps it. Rate, spacing and guard time follow from it.
//
// All durations have a resolution of one microsecond.
type Contract struct {
	Cap    int64         // units the provider allows in any Window
	Window time.Duration // the provider's window, wherever it begins
	Burst  int64         // units that may go at once after a pause; paid for out of the sustained rate

	Guard    time.Duration // by how much delivery times may spread: Lateness, and the way to the provider
	Lateness time.Duration // how long after its time a slot may still be used
	Spread   time.Duration // by how much the way to the provider differs; with Auto, Guard is Lateness + Spread
	Auto     bool          // the fleet chooses Lateness, and Guard with it, by how late its slots are
	Horizon  time.Duration // how far ahead slots are booked; also how long a change takes to act

	Reserve  int64 // units of Cap that Redis never gives out: each node has its part of them while Redis is away
	MaxNodes int64 // that have a part of the reserve; required where there is one
}

// Defaults for what a contract leaves open.
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
	MinHorizon      = 20 * time.Millisecond  // less, and a node can't book before it needs
	MaxHorizon      = 300 * time.Millisecond // more, and a change would act too late
	MaxCap          = 1_000_000_000
	MaxWindow       = 31 * 24 * time.Hour
	maxUnits        = 1 << 21 // of a pace that is counted exactly: see [Contract.Pace]
)

// FieldError is a setting that can't be honoured: which, what it was, and why.
type FieldError struct {
	Field string
	Value any
	Why   string
}

func (e *FieldError) Error() string { return fmt.Sprintf("%s: %v: %s", e.Field, e.Value, e.Why) }

// Validate says whether the contract can be kept. It joins a [FieldError] for
// each field that stands in the way.
func (c Contract) Validate() error {
	var faults []error
	refuse := func(bad bool, field string, value any, why string) {
		if bad {
			faults = append(faults, &FieldError{Field: field, Value: value, Why: why})
		}
	}
	refuse(c.Cap < 1 || c.Cap > MaxCap, "cap", c.Cap, fmt.Sprintf("must be from 1 to %d", MaxCap))
	refuse(c.Window < time.Millisecond || c.Window > MaxWindow, "window", c.Window, fmt.Sprintf("must be from 1ms to %s", MaxWindow))
	refuse(c.Guard < time.Millisecond || c.Guard > time.Minute, "guard", c.Guard, "must be from 1ms to 1m")
	refuse(c.Burst < 1, "burst", c.Burst, "must be at least 1")
	refuse(c.Burst > c.Cap && c.Cap >= 1, "burst", c.Burst, fmt.Sprintf("must not be above the cap of %d", c.Cap))
	faults = append(faults, c.reserveFaults()...)
	refuse(c.Window < MinWindowGuards*c.Guard, "window", c.Window,
		fmt.Sprintf("must be at least %d times the guard of %s, or the guard eats the cap", MinWindowGuards, c.Guard))
	refuse(c.Lateness < MinLateness, "lateness", c.Lateness, fmt.Sprintf("must be at least %s, or no slot could be used", MinLateness))
	refuse(c.Lateness >= c.Guard, "lateness", c.Lateness, fmt.Sprintf("must be below the guard of %s", c.Guard))
	faults = append(faults, c.autoFaults()...)
	refuse(c.Horizon < MinHorizon || c.Horizon > MaxHorizon, "horizon", c.Horizon, fmt.Sprintf("must be from %s to %s", MinHorizon, MaxHorizon))
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"window", c.Window}, {"guard", c.Guard}, {"lateness", c.Lateness}, {"spread", c.Spread}, {"horizon", c.Horizon}} {
		refuse(d.value%time.Microsecond != 0, d.field, d.value, "must be whole microseconds")
	}
	return errors.Join(faults...)
}

// reserveFaults: what a node may send while it can't ask must be whole units,
// and must not be given out by Redis as well.
func (c Contract) reserveFaults() []error {
	if c.Reserve == 0 && c.MaxNodes == 0 {
		return nil
	}
	fault := func(field string, value int64, why string, args ...any) []error {
		return []error{&FieldError{Field: field, Value: value, Why: fmt.Sprintf(why, args...)}}
	}
	switch {
	case c.Reserve < 1:
		return fault("reserve", c.Reserve, "must be at least 1 with max_nodes, or both 0")
	case c.MaxNodes < 1:
		return fault("max_nodes", c.MaxNodes, "must say among how many nodes the reserve of %d is divided", c.Reserve)
	case c.Reserve%c.MaxNodes != 0:
		return fault("reserve", c.Reserve, "for %d nodes is %.4g units each: must be a multiple of max_nodes, for only whole units keep the cap",
			c.MaxNodes, float64(c.Reserve)/float64(c.MaxNodes))
	case c.Reserve+max(c.Burst, 1) > c.Cap:
		return fault("reserve", c.Reserve, "must leave more of the cap of %d than the burst of %d", c.Cap, c.Burst)
	}
	return nil
}

// autoFaults: a guard that the fleet chooses follows from the lateness.
func (c Contract) autoFaults() (faults []error) {
	if c.Spread != 0 && (c.Spread < MinSpread || c.Spread > time.Minute) || c.Auto && c.Spread == 0 {
		faults = append(faults, &FieldError{Field: "spread", Value: c.Spread, Why: fmt.Sprintf("must be from %s to 1m", MinSpread)})
	}
	if c.Auto && c.Guard != c.Lateness+c.Spread {
		faults = append(faults, &FieldError{
			Field: "guard", Value: c.Guard,
			Why: fmt.Sprintf("must be the lateness of %s and the spread of %s where the guard is auto", c.Lateness, c.Spread),
		})
	}
	return faults
}

// WithLateness is the contract with a guard that is auto, and the first class of
// lateness that is as long as the one given, or the longest that the window has
// room for.
func (c Contract) WithLateness(lateness time.Duration) Contract {
	longest := c.LongestLateness()
	if i := latenessClass(lateness); i < len(latenessClasses) {
		longest = min(longest, latenessClasses[i])
	}
	c.Auto, c.Lateness, c.Guard = true, longest, longest+c.Spread
	return c
}

// LongestLateness is the most that the fleet chooses where the guard is auto.
func (c Contract) LongestLateness() (longest time.Duration) {
	for _, class := range latenessClasses {
		if fits(class, c.Window, c.Spread) {
			longest = class
		}
	}
	return longest
}

// stated is the contract without what the fleet chooses.
func (c Contract) stated() Contract {
	if c.Auto {
		c.Guard, c.Lateness = 0, 0
	}
	return c
}

// LogValue shows the contract in one line.
func (c Contract) LogValue() slog.Value { return slog.StringValue(c.String()) }

// String is the contract in one line.
func (c Contract) String() string {
	guard := c.Guard.String()
	if c.Auto {
		guard = "auto (" + guard + ")"
	}
	return fmt.Sprintf("%d in %s, burst %d, guard %s, lateness %s, horizon %s", c.Cap, c.Window, c.Burst, guard, c.Lateness, c.Horizon)
}

// Pace is the sustained rate: units slots in every period microseconds, as a
// reduced fraction. A slot and the Cap-th behind it then lie at least
// Window + Guard apart, whatever burst was taken: a bucket of Burst that is
// refilled at (Cap − Burst + 1) / (Window + Guard) lets no more than Cap pass
// in Window + Guard.
//
// The pace is exact for every cap up to 2,097,152, whatever the window. A fraction
// of which both numbers are above that is rounded to the slower side, by less
// than two parts in a million: a script's numbers hold no longer rests exactly.
func (c Contract) Pace() (units, period int64) {
	units = c.Cap - c.Reserve - c.Burst + 1
	period = (c.Window + c.Guard).Microseconds()
	d := gcd(units, period)
	units, period = units/d, period/d
	d = ceilDiv(min(units, period), maxUnits)
	return units / d, ceilDiv(period, d)
}

// Share is the part of the cap, from 0 to 1, that can be used while jobs wait.
func (c Contract) Share() float64 {
	units, period := c.Pace()
	return float64(units) / float64(period) * float64(c.Window.Microseconds()) / float64(c.Cap)
}

// Spacing is the time between two slots of the sustained rate.
func (c Contract) Spacing() time.Duration {
	units, period := c.Pace()
	return time.Duration(math.Ceil(float64(period)*1000/float64(units))) * time.Nanosecond
}

// Reaction is how long a change of the settings takes, at most, to hold for
// every call: a node may be using slots it booked just before.
func (c Contract) Reaction() time.Duration { return c.Horizon + c.Lateness }

// LookEvery is how often a node asks Redis at least, to see changes of the
// settings and steps of the clock: at low rates less often, for there a fleet
// that stands still while it finds out loses less than a spacing.
func (c Contract) LookEvery() time.Duration {
	return min(max(lookEvery, c.Spacing()/5), lookMost)
}

// Relearn is how long nothing is given after Redis lost its settings, at least:
// each node has come by in that time and has brought back the newest.
func (c Contract) Relearn() time.Duration { return c.LookEvery() * 5 / 2 }

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
