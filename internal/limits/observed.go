package limits

import (
	"context"
	"time"

	"dispatcher/internal/timetext"
	"dispatcher/throttle/control"
	"dispatcher/throttle/lateness"
	"dispatcher/throttle/limit"
)

// RoundTrips are measured to the provider. The spread must cover how much they vary.
type RoundTrips struct {
	Connections int64              `json:"connections"` // opened over the last ten minutes
	LowS        float64            `json:"low_s"`
	HighS       float64            `json:"high_s"`
	Fit         lateness.SpreadFit `json:"fit"`
	SpreadS     float64            `json:"recommended_spread_s,omitempty"`
	Share       float64            `json:"share_with_it,omitempty"`
}

func roundTrips(ctx context.Context, operator *control.Control, now limit.Settings, clock time.Time) (*RoundTrips, error) {
	trips, err := operator.RoundTrips(ctx, clock)
	if err != nil {
		return nil, err
	}
	fit, spread := trips.Fit(now.Spread)
	r := RoundTrips{Connections: trips.Connections, LowS: trips.Low.Seconds(), HighS: trips.High.Seconds(), Fit: fit}
	if spread > 0 {
		then := now.Terms
		then.Spread = spread
		then.Contract = then.WithLateness(then.Lateness) // as limit set does
		r.SpreadS, r.Share = spread.Seconds(), then.UsableShare()
	}
	return &r, nil
}

// Slowdown is what the provider's answers leave of a limit.
type Slowdown struct {
	EffectiveCap float64 `json:"effective_cap"` // in any window
	Granted      float64 `json:"granted_units"` // in any window, now: less than the effective cap for some seconds after a block
	Since        string  `json:"since,omitempty"`
	BlockedUntil string  `json:"blocked_until,omitempty"`
	Why          string  `json:"why"`

	State limit.Slowdown `json:"-"` // as Redis holds it: it says the effective cap under other settings
}

// slowdown is nil where the provider's answers slow nothing down.
func slowdown(ctx context.Context, operator *control.Control, now limit.Settings, clock time.Time) (*Slowdown, error) {
	slow, err := operator.Slowdown(ctx)
	if err != nil || slow.Slowed == 0 {
		return nil, err
	}
	state := Slowdown{
		EffectiveCap: slow.EffectiveCap(now.Contract), Granted: slow.UnitsIn(now.Contract),
		Since: timetext.Exact(limit.FromMicros(slow.Slowed)), Why: slow.Why,
		State: slow,
	}
	if slow.BlockedAt(clock) {
		state.BlockedUntil = timetext.Exact(limit.FromMicros(slow.Until))
	}
	return &state, nil
}
