package limit

import (
	"math"
	"slices"
	"time"

	"dispatcher/internal/fault"
)

// Algorithm is one way to keep a contract across the fleet: a script, and its
// consequences. All of them are waited on alike: one goroutine a node asks, and
// either reserves ahead or learns when to ask again.
type Algorithm struct {
	Name    string
	Script  string // the file in lua/algorithms, without .lua
	Promise string // what it admits, in one line

	// Strict: no window at the provider holds more than the cap, as long as
	// delivery times spread by no more than the guard.
	Strict bool

	// Ahead: slots are reserved ahead of their time. The others grant units for
	// now, or say when to ask again.
	Ahead bool

	// Refunds: units whose slot was not used are granted again. Otherwise they are lost.
	Refunds bool

	// Pace is the rate that the fleet plans with: units in every period microseconds.
	// A script reads it as c.units and c.period. One that reserves ahead keeps exactly
	// this pace; of the others it is an estimate.
	Pace func(Contract) (units, period int64)

	// Worst is the most units that any window may hold at the provider: the cap, or
	// less, where the algorithm is strict. So many may have their slots in any Window + Guard, with
	// the largest job and the reserve.
	Worst func(Contract) int64

	// Share is the part of the cap, from 0 to 1, that is used while jobs wait: by an
	// algorithm that reserves ahead, this part and no more.
	Share func(Contract) float64

	// Cooldown is how long after its time a unit still counts: part of the
	// cooldown after a loss. The script has the same as algorithm.cooldown.
	Cooldown func(Contract) time.Duration

	// check refuses parameters that the algorithm can't honour.
	check func(Contract, *fault.List)
}

// The algorithms' names. [TokenBucket] is the default.
const (
	TokenBucket          = "token_bucket"
	LeakyBucket          = "leaky_bucket"
	GCRA                 = "gcra"
	RedisCell            = "redis_cell"
	FixedWindow          = "fixed_window"
	SlidingWindowCounter = "sliding_window_counter"
	SlidingWindowLog     = "sliding_window_log"
	SlidingWindowList    = "sliding_window_list"

	DefaultAlgorithm = TokenBucket
)

// algorithms are all there are. A leaky bucket is a token bucket without a burst.
// The sliding window's log and its list are one script.
var algorithms = []Algorithm{ //nolint:gochecknoglobals // a constant table
	{
		Name: TokenBucket, Script: TokenBucket, Strict: true, Ahead: true,
		Promise: "never over; a burst is paid for out of the sustained rate",
		Pace:    Contract.Pace, Worst: wholeCap, Share: Contract.Share, Cooldown: afterLargest(Contract.Pace), check: nothing,
	},
	{
		Name: LeakyBucket, Script: TokenBucket, Strict: true, Ahead: true,
		Promise: "never over, and evenly spaced",
		Pace:    Contract.Pace, Worst: wholeCap, Share: Contract.Share, Cooldown: afterLargest(Contract.Pace),
		check: noBurst("must be 1: a leaky bucket lets units go one by one; for a burst use token_bucket"),
	},
	{
		Name: GCRA, Script: GCRA,
		Promise: "the cap sustained, and a burst beside it: over by about the burst; as redis-cell, exact to the µs",
		Pace:    paceForNow,
		Worst: func(c Contract) int64 {
			inGuard := ceilDiv(c.Guard.Microseconds()*Given(c), c.Window.Microseconds())
			return c.Burst - 1 + Given(c) + inGuard + c.Reserve
		},
		Share: unpaidShare, Cooldown: unpaidSpacing, check: costWithinBurst,
	},
	{
		Name: RedisCell, Script: RedisCell, // a module, which Redis must have loaded
		Promise: "as gcra, by the module redis-cell, in whole ns",
		Pace:    paceForNow,
		Worst: func(c Contract) int64 {
			spacing := c.Window.Nanoseconds() / Given(c) // rounded down, as the module does
			return c.Burst - 1 + ceilDiv(Windowed(c).Nanoseconds(), spacing) + c.Reserve
		},
		Share: unpaidShare, Cooldown: unpaidSpacing,
		check: func(c Contract, faults *fault.List) {
			costWithinBurst(c, faults)
			faults.Refuse(c.Window%time.Second != 0, "window", c.Window, "must be whole seconds, for redis-cell counts in them; or use gcra")
		},
	},
	{
		Name: FixedWindow, Script: FixedWindow, Refunds: true,
		Promise: "up to twice the cap where two windows meet; one number in Redis",
		Pace:    paceForNow, Worst: sideBySide, Share: shareForNow, Cooldown: Windowed, check: noBurst(burstIsCap),
	},
	{
		Name: SlidingWindowCounter, Script: SlidingWindowCounter, Refunds: true,
		Promise: "near the cap under steady load, up to twice the cap after a late burst; two numbers in Redis",
		Pace:    paceForNow, Worst: sideBySide,
		Share: func(c Contract) float64 { // after a full bucket the last unit comes free only when the bucket is over
			n := float64(Given(c))
			return shareForNow(c) * max((n-1)/n, 0.5)
		},
		Cooldown: Windowed, check: noBurst(burstIsCap),
	},
	{
		Name: SlidingWindowLog, Script: SlidingWindowLog, Strict: true, Refunds: true,
		Promise: "never over, at the full rate and with bursts of the cap; Redis keeps each reservation of a window",
		Pace:    paceForNow, Worst: wholeCap, Share: shareForNow, Cooldown: Windowed, check: listed,
	},
	{
		Name: SlidingWindowList, Script: SlidingWindowLog, Strict: true, Refunds: true,
		Promise: "never over, at the full rate and with bursts of the cap; Redis keeps each reservation of a window",
		Pace:    paceForNow, Worst: wholeCap, Share: shareForNow, Cooldown: Windowed, check: listed,
	},
}

// Algorithms are all there are, the default one first.
func Algorithms() []Algorithm { return slices.Clone(algorithms) }

// AlgorithmNamed finds an algorithm; an empty name is the default one. The error
// is a [fault.Error].
func AlgorithmNamed(name string) (Algorithm, error) {
	if name == "" {
		name = DefaultAlgorithm
	}
	names := make([]string, len(algorithms))
	for i, a := range algorithms {
		if a.Name == name {
			return a, nil
		}
		names[i] = a.Name
	}
	var faults fault.List
	faults.OneOf("algorithm", name, names...)
	return Algorithm{}, faults.Err()
}

// Spacing is the time between two slots at the algorithm's pace.
func (a Algorithm) Spacing(c Contract) time.Duration { return spacing(a.Pace(c)) }

// Standstill is how long the fleet sends nothing after Redis lost everything: until
// all units that may have been granted are over, and each node has had time to
// restore the newest settings.
func (a Algorithm) Standstill(c Contract) time.Duration {
	return max(c.Relearn(), c.Horizon+c.Lateness+a.Cooldown(c))
}

func wholeCap(c Contract) int64 { return c.Cap }

// sideBySide is the most that a window holds where two fillings may meet, all
// but one unit: the one that the first filling began with, or the last.
func sideBySide(c Contract) int64 { return 2*Given(c) - 1 + c.Reserve }

// Given is the part of the cap that Redis gives out, in units.
func Given(c Contract) int64 { return c.Cap - c.Reserve }

// Windowed is how long a unit counts, and an algorithm has to look back.
func Windowed(c Contract) time.Duration { return c.Window + c.Guard }

// unpaidShare is the part of the cap that Redis gives where neither the burst nor
// the guard is paid for.
func unpaidShare(c Contract) float64 { return float64(Given(c)) / float64(c.Cap) }

func unpaidSpacing(c Contract) time.Duration {
	return time.Duration(math.Ceil(c.Window.Seconds()/float64(Given(c))*1e6)) * time.Microsecond
}

func nothing(Contract, *fault.List) {}

// paceForNow is the pace of an algorithm that grants all units of a job for now: it counts
// them at the time at which they go, and pays for no largest job.
func paceForNow(c Contract) (units, period int64) {
	c.MaxCost = 1
	return c.Pace()
}

func shareForNow(c Contract) float64 {
	c.MaxCost = 1
	return c.Share()
}

// afterLargest is how long after the last job the next one comes at the pace, where both are the
// largest. After a whole window nothing counts any more.
func afterLargest(pace func(Contract) (units, period int64)) func(Contract) time.Duration {
	return func(c Contract) time.Duration {
		units, period := pace(c)
		if float64(c.LargestCost())*float64(period)/float64(units) >= float64(Windowed(c).Microseconds()) {
			return Windowed(c)
		}
		return spacing(units, period*c.LargestCost())
	}
}

// costWithinBurst refuses jobs that would never find room.
func costWithinBurst(c Contract, faults *fault.List) {
	faults.Refuse(c.LargestCost() > c.Burst, "max_cost", c.MaxCost, "must be at most the burst of %d, or the largest jobs would wait for ever", c.Burst)
}

// burstIsCap is for algorithms that grant at once all that the window has left.
const burstIsCap = "must be 1: this algorithm lets up to the whole cap go at once; for a smaller burst use token_bucket"

// noBurst refuses a burst where there is nothing that it could set.
func noBurst(remedy string) func(Contract, *fault.List) {
	return func(c Contract, faults *fault.List) { faults.Refuse(c.Burst != 1, "burst", c.Burst, "%s", remedy) }
}

// maxListed is how many units a log may hold: one by one, where each is reserved
// alone.
const maxListed = 1_000_000

// listed refuses a cap that would need too much memory.
func listed(c Contract, faults *fault.List) {
	noBurst(burstIsCap)(c, faults)
	faults.Refuse(c.Cap > maxListed, "cap", c.Cap,
		"must be at most %d, for Redis may keep an entry for each unit; state the contract over a shorter window, or use token_bucket", maxListed)
}
