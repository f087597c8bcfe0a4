package limit

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// packedVersion is the version of the settings in Redis. limit.lua knows it too.
const packedVersion = 3

// maxPacked bounds a value that is read from Redis, in bytes.
const maxPacked = 32 << 10

// packed are the settings as Redis holds them: one JSON value. Durations are in
// nanoseconds, as Go writes them, and times in microseconds since 1970.
type packed struct {
	Version int64 `json:"v"`
	Settings
	Units    int64  `json:"units"` // the pace of the algorithm: units in every period
	Period   int64  `json:"period"`
	Changed  int64  `json:"changed"`
	RevertAt int64  `json:"revert_at"`
	RevertTo string `json:"revert_to,omitempty"` // packed
}

// Pack returns the settings as Redis holds them. Settings that were read from
// Redis are returned byte for byte.
func (s Settings) Pack() string {
	if s.packed != "" {
		return s.packed
	}
	p := packed{Version: packedVersion, Settings: s, Changed: Micros(s.Changed), RevertAt: Micros(s.RevertAt), RevertTo: s.revertTo}
	p.Units, p.Period = s.Pace()
	if !s.RevertAt.IsZero() && s.revertTo == "" {
		p.RevertTo = s.Reverted().Pack()
	}
	text, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("limit: settings can't be packed: %v", err)) // valid ones always can
	}
	return string(text)
}

var errPacked = errors.New("unreadable settings")

// Unpack reads the text that Pack wrote.
func Unpack(text string) (Settings, error) {
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
	s := p.Settings
	s.MaxCost = s.LargestCost() // there was none before
	s.Changed, s.RevertAt = FromMicros(p.Changed), FromMicros(p.RevertAt)
	s.packed, s.revertTo = text, p.RevertTo
	if s.Cap < 1 || s.Window < time.Microsecond || s.Guard < 0 || s.Reserve < 0 || s.Burst < 1 || s.Cap-s.Reserve-s.Burst < 0 || s.MaxCost > s.Cap-s.Reserve-s.Burst+1 || s.MaxNodes < 0 || s.UnitsOfNode() > 0 && s.LargestCost() > s.UnitsOfNode() || s.MaxInFlight < 0 || p.Units < 1 || p.Period < 1 {
		return Settings{}, fmt.Errorf("%w: a contract of %s", errPacked, s.Contract)
	}
	_, unread := s.Exceptions.All()
	if err := errors.Join(s.Quota.Validate(), unread); err != nil {
		return Settings{}, fmt.Errorf("%w: %w", errPacked, err)
	}
	if s.RevertAt.IsZero() {
		return s, nil
	}
	after, err := Unpack(p.RevertTo)
	if err != nil {
		return Settings{}, fmt.Errorf("after the override: %w", err)
	}
	s.RevertTo = after.Terms
	return s, nil
}

// Micros is t on Redis's clock; the zero time is 0.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// FromMicros is the time that [Micros] made a number of.
func FromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}
