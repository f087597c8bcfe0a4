package overview

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dispatcher/internal/fault"
	"dispatcher/internal/timetext"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// Binding is the share of the last half minute from which on a limit counts as what holds jobs up.
const Binding = 0.5

// Forecast says when the jobs that wait now are settled, if no more come.
type Forecast struct {
	Jobs   float64  `json:"jobs"`              // that wait, are in flight or asleep
	PerS   float64  `json:"per_s"`             // that are to be settled in a second
	LeftS  *float64 `json:"left_s"`            // null: not within a year
	GoneAt string   `json:"gone_at,omitempty"` // by Redis's clock
	Since  string   `json:"since"`             // what the rate follows from: [FromCap] or [FromRate]

	Cost     float64 `json:"cost"`      // units that a job counts, on average: the rate of the cap is one of units
	CostFrom string  `json:"cost_from"` // what that follows from: [CostOfLimit] or one of the others

	// Expire is how many of the fetched jobs expire before their turn at this rate. Of the other jobs nobody knows.
	Expire  float64 `json:"expire"`
	Fetched float64 `json:"fetched"` // of Jobs, those that nodes have read and that wait for their turn
}

// What a forecast follows from.
const (
	FromCap  = "cap"  // the first limit binds: jobs go at its rate
	FromRate = "rate" // something else does: jobs go at the rate of the last half minute
)

// What the units of a job follow from.
const (
	CostOfLimit = "limit"   // each job counts one unit: max_cost is 1
	CostOfJobs  = "jobs"    // the mean of the fetched jobs that wait for their turn
	CostOfCalls = "calls"   // the mean of the calls of late: an expression says what a job counts, or no job waits for its turn
	CostUnknown = "unknown" // nothing tells: each job is taken for one unit
)

// cost is how many units a job counts under these settings, on average, and what that follows from.
func (f *Fleet) cost(s limit.Settings) (units float64, from string) {
	if s.LargestCost() == 1 {
		return 1, CostOfLimit
	}
	var jobs, unitsOfJobs, calls, unitsOfCalls float64
	for _, n := range f.fresh() {
		for _, l := range n.Lanes {
			if l.Units > 0 {
				jobs, unitsOfJobs = jobs+float64(l.Fetched), unitsOfJobs+float64(l.Units)
			}
		}
		calls, unitsOfCalls = calls+n.CallsPerS, unitsOfCalls+n.UnitsPerS
	}
	switch {
	case jobs > 0:
		return unitsOfJobs / jobs, CostOfJobs
	case calls > 0 && unitsOfCalls > 0:
		return unitsOfCalls / calls, CostOfCalls
	}
	return 1, CostUnknown
}

// CostText says how many units a job counts, and how that is known; empty: each job counts one.
func (c Forecast) CostText() string {
	switch c.CostFrom {
	case CostOfLimit:
		return ""
	case CostUnknown:
		return "an unknown number of units, taken for one"
	}
	return fmt.Sprintf("%.3g units, the mean of the %s", c.Cost, map[string]string{CostOfJobs: "fetched jobs", CostOfCalls: "calls of late"}[c.CostFrom])
}

// forecast takes the rate of the settings where the first limit binds or is to bind, and the present one elsewhere.
func (f *Fleet) forecast(s limit.Settings) Forecast {
	return f.forecastAt(s, f.capRate(s), f.binds())
}

// capRate is how many units a second the settings let pass.
func (f *Fleet) capRate(s limit.Settings) float64 {
	if s.Paused {
		return 0
	}
	return s.UsableShare() * float64(s.Cap) / s.Window.Seconds()
}

// binds tells whether the first limit holds jobs up.
func (f *Fleet) binds() bool {
	return len(f.Limits) > 0 && f.Limits[0].Binds >= Binding
}

// forecastAt takes a rate in units a second.
func (f *Fleet) forecastAt(s limit.Settings, rate float64, binds bool) Forecast {
	c := Forecast{Jobs: f.waiting(), PerS: f.perSecond(), Since: FromRate}
	if slow := f.Limit.Slowdown; slow != nil && !s.IgnoreThrottled && s.Cap > 0 {
		rate *= slow.State.EffectiveCap(s.Contract) / float64(s.Cap)
	}
	c.Cost, c.CostFrom = f.cost(s)
	rate /= c.Cost
	if binds || rate < c.PerS || s.Paused {
		c.PerS, c.Since = rate, FromCap
	}
	if c.LeftS = seconds(c.Jobs, c.PerS); c.LeftS != nil {
		c.GoneAt = timetext.Exact(f.now.Add(time.Duration(*c.LeftS * float64(time.Second))))
	}
	c.Expire, c.Fetched = f.expiring(c.PerS), f.fetched()
	return c
}

// Preview is what would become of the jobs that wait under a change of the first limit.
type Preview struct {
	Forecast

	Cap     int64   `json:"cap"`
	WindowS float64 `json:"window_s"`
	Share   float64 `json:"share"`             // of the cap that can be used
	Refused string  `json:"refused,omitempty"` // the guardrail that refuses the change, unless it is forced
}

// Preview changes nothing. A change that can't be kept is an error, as it would be of [control.Control.Set].
func (r Reader) Preview(ctx context.Context, ch control.Change) (Preview, error) {
	f, err := r.Read(ctx)
	if err != nil {
		return Preview{}, err
	}
	operator, err := r.Control(r.First())
	if err != nil {
		return Preview{}, err
	}
	then, err := operator.Preview(ctx, ch)
	guardrail, refused := errors.AsType[*limit.GuardrailError](err)
	_, faulty := errors.AsType[*fault.Error](err)
	if faulty || err != nil && !refused && !errors.Is(err, control.ErrUnchanged) {
		return Preview{}, err
	}
	p := Preview{Cap: then.Cap, WindowS: then.Window.Seconds(), Share: then.UsableShare(), Forecast: f.forecastAt(then, f.capRate(then), f.binds())}
	if refused {
		p.Refused = guardrail.Guardrail + ": " + guardrail.Why
	}
	return p, nil
}
