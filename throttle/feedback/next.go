package feedback

import (
	"fmt"
	"math"
	"time"

	"dispatcher/throttle/limit"
)

// The rules' numbers.
const (
	leastRefused = 3    // calls, or units; fewer block and lower nothing
	few          = 10   // calls; of fewer, half may be refused by chance
	sure         = 10   // units; fewer lower the cap by half at most
	tolerated    = 0.01 // share of refused calls that lowers nothing
	enough       = 20   // units by which a share is judged, or what comes in patience
	patience     = 10 * time.Second
	longest      = 5 * time.Second // of two windows, in which refused calls are judged: they come in one part of a window

	lowered = 0.98 // of the rate that was accepted
	raised  = 1.02 // with each look; twice, when nothing was refused for twice as long as quiet
	quiet   = 7 * time.Second
	settled = time.Minute // after the last lowering or block: refused calls that lower nothing are quiet from then on
	tenth   = 0.1         // of the effective cap, which is tried after a block
	floor   = 0.01        // of the operator's cap, which is always left

	leastBlock = time.Second // where the provider does not say how long, doubled with each block in a row; or says less
	mostBlock  = time.Minute // a provider that asks for more is asked again after this

	noHelp = 0.3 // a lower cap helps if less than this part of the refused share is left
	tries  = 3   // of lowering, before it counts as no help
	kept   = time.Minute

	forgotten = 10 * time.Minute // nothing was counted for so long
)

// Decision is what follows from the fleet's counts.
type Decision struct {
	Next    limit.Slowdown // zero: the slowdown ends
	Changed bool           // false: the counts go on
	Event   string         // for the history; empty: nothing that an operator would look for
}

// Begin is the slowdown with which the fleet begins to watch its calls: it slows nothing.
func Begin(c limit.Contract, now int64) limit.Slowdown {
	return limit.Slowdown{
		Number: now, Since: now, Units: float64(c.Cap), Effective: float64(c.Cap), Window: c.Window.Microseconds(),
		Throttled: now, Why: "the provider refused calls",
	}
}

// Next decides by the counts of all nodes under a slowdown what follows it, at now on Redis's
// clock, in µs. share is the part of a cap that the limit's algorithm uses while jobs wait. It is
// a pure function.
func Next(s limit.Slowdown, c limit.Contract, share float64, nodes []Counts, now int64) Decision {
	l := look{Slowdown: scaled(s, c), contract: c, share: share, now: now}
	for _, n := range nodes {
		l.calls += n.Calls
		l.refusedCalls += n.RefusedCalls
		l.made += n.Made
		l.refused += n.Refused
		l.asked = max(l.asked, n.Asked)
		if n.Span > 0 {
			l.accepted += float64(max(0, n.Made-n.Refused)) / n.Span.Seconds()
		}
	}
	age := time.Duration(now-max(s.Number, s.Since)) * time.Microsecond
	enoughMade := l.made >= enough && (l.refused == 0 || l.refused >= leastRefused && age >= min(2*c.Window, longest)) ||
		l.ramps() && l.refused == 0 && l.made >= leastRefused
	switch {
	case c.IgnoreThrottled || age > forgotten:
		return l.end()
	case l.refusesMost() && !l.between():
		return l.block()
	case !enoughMade && age < patience:
		return Decision{Next: s}
	}
	if l.First > 0 {
		l.MadeSince, l.RefusedSince = l.MadeSince+l.made, l.RefusedSince+l.refused
	}
	switch {
	case l.refused >= leastRefused && l.refused <= l.made && float64(l.refused) > tolerated*float64(l.made):
		return l.lower()
	case l.refused == 0 || now-l.Since >= settled.Microseconds(): // a provider that refuses a few for their rate refuses more soon
		return l.clean()
	}
	l.Throttled = now // a few, or of calls that were made before: the cap is right
	if l.ramps() {
		return l.rise()
	}
	return l.again("")
}

// scaled is a slowdown in units of the contract's window. Under one that slowed nothing, the contract's cap is in force.
func scaled(s limit.Slowdown, c limit.Contract) limit.Slowdown {
	window := c.Window.Microseconds()
	if s.Slowed == 0 {
		s.Window, s.Units, s.Effective = window, float64(c.Cap), float64(c.Cap)
	}
	factor := float64(window) / float64(s.Window)
	s.Window, s.Units, s.Effective, s.Before = window, s.Units*factor, s.Effective*factor, s.Before*factor
	within := func(units float64) float64 { return math.Max(floor*float64(c.Cap), math.Min(units, float64(c.Cap))) }
	s.Units, s.Effective, s.Before = within(s.Units), within(s.Effective), within(s.Before)
	return s
}

// look is one decision.
type look struct {
	limit.Slowdown

	contract            limit.Contract
	share               float64
	now                 int64
	calls, refusedCalls int64
	made, refused       int64   // units
	accepted            float64 // units a second
	asked               time.Duration
}

// refusesMost reports whether the provider refuses at least half of the calls or, where they are few, all of them.
func (l look) refusesMost() bool {
	if l.calls < few {
		return l.refusedCalls >= leastRefused && l.refusedCalls >= l.calls
	}
	return 2*l.refusedCalls >= l.calls
}

// between reports whether the provider refused nothing at half of these units, and still accepts a good part of them: what
// it accepts lies between.
func (l look) between() bool {
	return l.ramps() && l.Blocks == 0 && 10*l.refusedCalls < 9*l.calls
}

// ramps reports whether less is granted than the effective cap, after a block.
func (l look) ramps() bool { return l.Units < l.Effective }

// again goes on with the slowdown, with counts that begin again.
func (l look) again(event string) Decision {
	l.Number = max(l.now, l.Number+1)
	return Decision{Next: l.Slowdown, Changed: true, Event: event}
}

func (l look) end() Decision {
	d := Decision{Changed: true}
	if l.Slowed != 0 {
		d.Event = fmt.Sprintf("the cap of %d in %s is in force again", l.contract.Cap, l.contract.Window)
	}
	return d
}

// block stops all calls for as long as the provider asks. Those that were granted before say nothing
// about what it accepts then.
func (l look) block() Decision {
	asked := l.asked
	if asked == 0 {
		asked = min(mostBlock, leastBlock<<min(l.Blocks, 10))
	}
	wait := min(max(asked, leastBlock), mostBlock)
	l.Blocks++
	l.Until = l.now + wait.Microseconds()
	l.Units = math.Max(l.least(), tenth*l.Effective)
	l.Throttled = l.now
	l.Why = fmt.Sprintf("the provider refused %d of %d calls", l.refusedCalls, l.calls)
	if l.Slowed == 0 {
		l.Slowed = l.now
	}
	event := ""
	if l.Blocks == 1 { // the next ones in a row tell nothing new
		event = fmt.Sprintf("blocked for %s: %s", wait, l.Why)
	}
	l.Since = l.Until
	return l.again(event)
}

// lower makes the effective cap a little less than the rate that was accepted.
func (l look) lower() Decision {
	l.Throttled, l.Blocks = l.now, 0
	if l.now < l.KeptUntil {
		return l.rise()
	}
	refused := float64(l.refused) / float64(l.made)
	switch {
	case l.First == 0:
		l.Before, l.First, l.Lowered = l.Effective, refused, 0
		l.MadeSince, l.RefusedSince = 0, 0
	case l.Lowered >= tries && float64(l.RefusedSince) > noHelp*l.First*float64(l.MadeSince):
		return l.keep(refused)
	}
	l.Lowered++
	l.MadeSince, l.RefusedSince = l.MadeSince/2, l.RefusedSince/2 // see limit.Slowdown
	first := l.Slowed == 0
	rate := l.accepted * l.contract.Window.Seconds() / l.share
	if l.refused < sure { // by chance it may have been more or fewer
		rate = math.Max(rate, l.Units/2)
	}
	l.Effective = math.Max(l.least(), lowered*math.Min(rate, l.Units))
	l.Units = l.Effective
	l.Why = fmt.Sprintf("the provider refused %.0f%% of %d units", 100*refused, l.made)
	event := ""
	if first {
		l.Slowed = l.now
		event = fmt.Sprintf("slowed to %.4g of %d in %s: %s", l.Effective, l.contract.Cap, l.contract.Window, l.Why)
	}
	l.Since = l.now + l.contract.Reaction().Microseconds() // until then calls go at the pace before
	return l.again(event)
}

// keep gives lowering up for a while: the provider refuses calls for another reason than their rate.
func (l look) keep(refused float64) Decision {
	l.Effective = math.Max(l.Effective, l.Before)
	l.Units, l.First = l.Effective, 0
	l.KeptUntil = l.now + kept.Microseconds()
	l.Why = fmt.Sprintf("the provider refuses %.0f%% of the units at any rate", 100*refused)
	return l.again(fmt.Sprintf("not slowed for %s: %s", kept, l.Why))
}

// clean follows a look without refused calls, or with a few long after the last lowering.
func (l look) clean() Decision {
	l.Blocks = 0
	isQuiet := l.now-l.Throttled >= quiet.Microseconds()
	if isQuiet {
		l.First = 0 // the next refused calls are refused for the first time again
	}
	switch {
	case isQuiet && l.Units >= float64(l.contract.Cap):
		return l.end()
	case isQuiet || l.ramps():
		return l.rise()
	}
	return l.again("")
}

// rise lets more calls go: after a block twice as many, up to the effective cap; else that rises.
func (l look) rise() Decision {
	if l.ramps() {
		l.Units = math.Min(l.Effective, 2*l.Units)
	} else {
		step := raised
		if l.now-l.Throttled >= 2*quiet.Microseconds() {
			step *= raised
		}
		l.Effective = math.Min(float64(l.contract.Cap), step*l.Effective)
		l.Units = l.Effective
	}
	return l.again("")
}

// least is what is always left.
func (l look) least() float64 { return floor * float64(l.contract.Cap) }
