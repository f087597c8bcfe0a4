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
	Horizon  time.Duration // how far ahead slots are booked; also how long a change takes to act
}

// Defaults for what a contract leaves open.
const (
	DefaultBurst    = 1
	DefaultGuard    = 10 * time.Millisecond
	DefaultLateness = 3 * time.Millisecond
	DefaultHorizon  = 200 * time.Millisecond
)

// Bounds that [Contract.Validate] holds a contract to.
const (
	MinLateness     = time.Millisecond       // less, and timers alone would be late
	MinWindowGuards = 10                     // a window is at least this many guards, or the guard eats the cap
	MinHorizon      = 20 * time.Millisecond  // less, and a node can't book before it needs
	MaxHorizon      = 300 * time.Millisecond // more, and a change would act too late
	MaxCap          = 1_000_000_000
	MaxWindow       = 31 * 24 * time.Hour
	maxProduct      = 1 << 50 // what is multiplied with the period stays exact in a script's doubles
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
	refuse(c.Window < MinWindowGuards*c.Guard, "window", c.Window,
		fmt.Sprintf("must be at least %d times the guard of %s, or the guard eats the cap", MinWindowGuards, c.Guard))
	refuse(c.Lateness < MinLateness, "lateness", c.Lateness, fmt.Sprintf("must be at least %s, or no slot could be used", MinLateness))
	refuse(c.Lateness >= c.Guard, "lateness", c.Lateness, fmt.Sprintf("must be below the guard of %s", c.Guard))
	refuse(c.Horizon < MinHorizon || c.Horizon > MaxHorizon, "horizon", c.Horizon, fmt.Sprintf("must be from %s to %s", MinHorizon, MaxHorizon))
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"window", c.Window}, {"guard", c.Guard}, {"lateness", c.Lateness}, {"horizon", c.Horizon}} {
		refuse(d.value%time.Microsecond != 0, d.field, d.value, "must be whole microseconds")
	}
	if len(faults) == 0 {
		units, period := c.Pace()
		refuse(units+c.Burst > maxProduct/period, "window", c.Window,
			fmt.Sprintf("together with a cap of %d it is too large to be counted exactly; state the contract over a shorter window", c.Cap))
	}
	return errors.Join(faults...)
}

// LogValue shows the contract in one line.
func (c Contract) LogValue() slog.Value { return slog.StringValue(c.String()) }

// String is the contract in one line.
func (c Contract) String() string {
	return fmt.Sprintf("%d in %s, burst %d, guard %s, lateness %s, horizon %s", c.Cap, c.Window, c.Burst, c.Guard, c.Lateness, c.Horizon)
}

// Pace is the sustained rate: units slots in every period microseconds, as a
// reduced fraction. A slot and the Cap-th behind it then lie at least
// Window + Guard apart, whatever burst was taken: a bucket of Burst that is
// refilled at (Cap − Burst + 1) / (Window + Guard) lets no more than Cap pass
// in Window + Guard.
func (c Contract) Pace() (units, period int64) {
	units = c.Cap - c.Burst + 1
	period = (c.Window + c.Guard).Microseconds()
	d := gcd(units, period)
	return units / d, period / d
}

// Spacing is the time between two slots of the sustained rate.
func (c Contract) Spacing() time.Duration {
	units, period := c.Pace()
	return time.Duration(math.Ceil(float64(period)*1000/float64(units))) * time.Nanosecond
}

// Share is the part of the cap, from 0 to 1, that can be used while jobs wait.
func (c Contract) Share() float64 {
	units, period := c.Pace()
	return float64(units) / float64(period) * float64(c.Window.Microseconds()) / float64(c.Cap)
}

// Reaction is how long a change of the settings takes, at most, to hold for
// every call: a node may be using slots it booked just before.
func (c Contract) Reaction() time.Duration { return c.Horizon + c.Lateness }

// Fence is how long the fleet stands still after Redis lost everything: until
// all that may have been booked is over, and each node has had time to bring
// back the newest settings.
func (c Contract) Fence() time.Duration {
	return max(relearn, c.Horizon+c.Lateness+c.Spacing())
}

// relearn is book.lua's LEARNING; nodes look more than twice as often.
const relearn = 500 * time.Millisecond

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
