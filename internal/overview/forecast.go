package overview

import (
	"context"
	"errors"
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
	LeftS  *float64 `json:"left_s"`            // null: nothing is settled
	GoneAt string   `json:"gone_at,omitempty"` // by Redis's clock
	Since  string   `json:"since"`             // what the rate follows from: [FromCap] or [FromRate]

	// Expire is how many of the fetched jobs expire before their turn at this rate. Of the other jobs nobody knows.
	Expire  float64 `json:"expire"`
	Fetched float64 `json:"fetched"` // of Jobs, those that nodes have read and that wait for their turn
}

// What a forecast follows from.
const (
	FromCap  = "cap"  // the first limit binds: jobs go at its rate
	FromRate = "rate" // something else does: jobs go at the rate of the last half minute
)

// forecast takes the rate of the settings where the first limit binds or is to bind, and the present one elsewhere.
func (f *Fleet) forecast(s limit.Settings) Forecast {
	return f.forecastAt(s, f.capRate(s), f.binds())
}

// capRate is how many jobs of one unit a second the settings let pass.
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

func (f *Fleet) forecastAt(s limit.Settings, rate float64, binds bool) Forecast {
	c := Forecast{Jobs: f.waiting(), PerS: f.perSecond(), Since: FromRate}
	if slow := f.Limit.Slowdown; slow != nil && s.Cap > 0 {
		rate *= slow.EffectiveCap / float64(s.Cap)
	}
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
