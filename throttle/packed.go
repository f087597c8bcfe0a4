package throttle

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// packedVersion is the version of the settings in Redis. The scripts know it too.
const packedVersion = 2

// maxPacked bounds what is read from Redis, in bytes.
const maxPacked = 16 << 10

// packed are the settings as Redis holds them: one JSON value. This is the only
// list of the fields; scripts read those that their arithmetic needs by name.
// Times and durations are in microseconds.
type packed struct {
	Version int64 `json:"v"`
	packedTerms
	Changed  int64  `json:"changed"`
	Revision int64  `json:"revision"`
	MaxCap   int64  `json:"max_cap"`
	MaxStep  int64  `json:"max_step"`
	By       string `json:"by"`
	Why      string `json:"why"`
	Undid    int64  `json:"undid,omitempty"`
	Until    int64  `json:"until"`
	After    string `json:"after,omitempty"` // packed: what takes over at until
}

type packedTerms struct {
	Algorithm string `json:"algorithm"`
	Cap       int64  `json:"cap"`
	Window    int64  `json:"window"`
	Burst     int64  `json:"burst"`
	Guard     int64  `json:"guard"`
	Lateness  int64  `json:"lateness"`
	Spread    int64  `json:"spread"`
	Auto      int    `json:"auto"`
	Horizon   int64  `json:"horizon"`
	Reserve   int64  `json:"reserve"`
	MaxNodes  int64  `json:"max_nodes"`
	Units     int64  `json:"units"` // the pace that follows from the contract: units in every period
	Period    int64  `json:"period"`
	Paused    int    `json:"paused"`
}

// pack returns the settings as Redis holds them. Settings that were read from
// Redis are returned byte for byte.
func (s Settings) pack() string {
	if s.packed != "" {
		return s.packed
	}
	units, period := s.Pace()
	p := packed{
		Version: packedVersion,
		packedTerms: packedTerms{
			Algorithm: s.Algorithm, Cap: s.Cap, Window: s.Window.Microseconds(), Burst: s.Burst, Guard: s.Guard.Microseconds(),
			Lateness: s.Lateness.Microseconds(), Spread: s.Spread.Microseconds(), Auto: flag(s.Auto), Horizon: s.Horizon.Microseconds(), Reserve: s.Reserve, MaxNodes: s.MaxNodes,
			Units: units, Period: period, Paused: flag(s.Paused),
		},
		Changed: micros(s.Changed), Revision: s.Revision, MaxCap: s.MaxCap, MaxStep: s.MaxStep, By: s.By, Why: s.Why, Undid: s.Undid,
		Until: micros(s.Until), After: s.after,
	}
	if !s.Until.IsZero() && s.after == "" {
		p.After = s.ended().pack()
	}
	text, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("throttle: settings can't be packed: %v", err)) // numbers and strings always can
	}
	return string(text)
}

var errPacked = errors.New("unreadable settings")

// unpack reads what pack wrote.
func unpack(text string) (Settings, error) {
	if len(text) > maxPacked {
		return Settings{}, fmt.Errorf("%w: %d bytes are more than %d", errPacked, len(text), maxPacked)
	}
	var p packed
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return Settings{}, fmt.Errorf("%w: %w", errPacked, err)
	}
	if p.Version != packedVersion {
		return Settings{}, fmt.Errorf("%w: version %d, and this program knows version %d", errPacked, p.Version, packedVersion)
	}
	s := Settings{
		Terms: p.terms(), Rails: Rails{MaxCap: p.MaxCap, MaxStep: p.MaxStep},
		Revision: p.Revision, Changed: fromMicros(p.Changed), By: p.By, Why: p.Why, Undid: p.Undid,
		Until: fromMicros(p.Until), packed: text, after: p.After,
	}
	if s.Cap < 1 || s.Window < 1 || s.Guard < 0 || s.Reserve < 0 || s.Burst < 1 || s.Cap-s.Reserve-s.Burst < 0 || p.Units < 1 || p.Period < 1 {
		return Settings{}, fmt.Errorf("%w: a contract of %s", errPacked, s.Contract)
	}
	if s.Until.IsZero() {
		return s, nil
	}
	after, err := unpack(p.After)
	if err != nil {
		return Settings{}, fmt.Errorf("after the override: %w", err)
	}
	s.Was = after.Terms
	return s, nil
}

func (p packedTerms) terms() Terms {
	return Terms{
		Contract: Contract{
			Cap: p.Cap, Window: duration(p.Window), Burst: p.Burst, Guard: duration(p.Guard), Lateness: duration(p.Lateness),
			Spread: duration(p.Spread), Auto: p.Auto == 1, Horizon: duration(p.Horizon), Reserve: p.Reserve, MaxNodes: p.MaxNodes,
		},
		Algorithm: p.Algorithm, Paused: p.Paused == 1,
	}
}

// edited is a copy of the settings that Redis does not hold yet.
func (s Settings) edited() Settings {
	s.packed, s.after = "", ""
	return s
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

func duration(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// micros is t on Redis's clock; the zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}
