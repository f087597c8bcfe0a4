package limit

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Slowdown is what a provider that refuses calls leaves of a limit for a while. It never raises
// the operator's cap. Package throttle/feedback decides on it; reserve.lua keeps to Units,
// Window and Until. Times are in µs on Redis's clock.
//
// It is part of the limit's state and not of its settings: a Redis that loses it begins again at the
// operator's cap.
type Slowdown struct {
	Number    int64   `json:"number"`    // when it was decided. No two have the same
	Since     int64   `json:"since"`     // calls with slots from here on tell whether it is right
	Units     float64 `json:"units"`     // that are granted in any Window, at most, where Slowed is not 0
	Window    int64   `json:"window"`    // µs
	Until     int64   `json:"until"`     // nothing is granted before; a time that is over, or 0: no block
	Effective float64 `json:"effective"` // the effective cap in any Window. Units is lower for some seconds after a block
	Slowed    int64   `json:"slowed"`    // when calls were first slowed; 0: they are only watched, under the operator's cap

	Throttled    int64   `json:"throttled"`     // when calls were refused last; a few do not count a minute after the last lowering
	Blocks       int     `json:"blocks"`        // in a row, the last one included
	Lowered      int     `json:"lowered"`       // how often the cap was lowered since calls were first refused; 0 again after seven quiet seconds
	Before       float64 `json:"before"`        // the effective cap before that
	First        float64 `json:"first"`         // the share that was refused then
	MadeSince    int64   `json:"made_since"`    // units since then; halved with each lowering, so that what is newer counts more
	RefusedSince int64   `json:"refused_since"` // and those of them that were refused
	KeptUntil    int64   `json:"kept_until"`    // until then the cap is not lowered, since that did not help

	Why string `json:"why"` // for people
}

// maxSlowdown bounds a slowdown that is read from Redis, in bytes.
const maxSlowdown = 1 << 10

// Pack is the slowdown as Redis holds it; empty: none.
func (s Slowdown) Pack() string {
	if s.IsZero() {
		return ""
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("limit: a slowdown can't be packed: %v", err)) // its numbers are finite
	}
	return string(text)
}

// UnpackSlowdown reads what [Slowdown.Pack] wrote.
func UnpackSlowdown(text string) (s Slowdown, err error) {
	switch {
	case text == "":
		return Slowdown{}, nil
	case len(text) > maxSlowdown:
		return Slowdown{}, fmt.Errorf("%w: a slowdown of %d bytes", errPacked, len(text))
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Slowdown{}, fmt.Errorf("%w: %w", errPacked, err)
	}
	if s.Number < 1 || s.Since < 1 || s.Window < 1 || !(s.Units > 0) || !(s.Effective > 0) || s.Until < 0 {
		return Slowdown{}, fmt.Errorf("%w: a slowdown to %g of %g in %dµs", errPacked, s.Units, s.Effective, s.Window)
	}
	return s, nil
}

// IsZero reports whether there is no slowdown.
func (s Slowdown) IsZero() bool { return s.Number == 0 }

// Share is which part of a contract's pace is left, from 0 to 1.
func (s Slowdown) Share(c Contract) float64 { return s.UnitsIn(c) / float64(c.Cap) }

// UnitsIn is how many units are granted in any window of the contract, at most.
func (s Slowdown) UnitsIn(c Contract) float64 { return s.in(c, s.Units) }

// EffectiveCap is the effective cap in units in any window of the contract.
func (s Slowdown) EffectiveCap(c Contract) float64 { return s.in(c, s.Effective) }

// in converts units of the slowdown's window to the contract's window, up to its cap. It is the cap
// where nothing was slowed.
func (s Slowdown) in(c Contract, units float64) float64 {
	if s.Slowed == 0 {
		return float64(c.Cap)
	}
	return math.Min(float64(c.Cap), units*float64(c.Window.Microseconds())/float64(s.Window))
}

// BlockedAt reports whether nothing is granted at a time on Redis's clock.
func (s Slowdown) BlockedAt(now time.Time) bool { return s.Until > now.UnixMicro() }
