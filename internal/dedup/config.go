package dedup

import (
	"cmp"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"dispatcher/internal/fault"
)

// Config is the section dedup of the configuration.
type Config struct {
	Enabled bool `yaml:"enabled"` // for the node; [New] does not look at it
	// Window is how long a job is remembered at least, after it was claimed or done.
	Window time.Duration `yaml:"window"`
	// Margin is how long after the request a claim may be used, and how long a done may
	// be under way.
	Margin time.Duration `yaml:"margin"`
}

const (
	leastWindow   = time.Minute
	mostWindow    = 31 * 24 * time.Hour
	leastMargin   = 20 * time.Millisecond // a call to Redis, and the limiter's own time on top
	mostMargin    = time.Minute
	holdsInWindow = 10 // in a smaller window, most entries would be claims
)

// Hold is how long a claim stands: then its call is over, or its node is gone.
func (c Config) Hold(callTimeout time.Duration) time.Duration { return callTimeout + 2*c.Margin }

// Validate returns the faults of the settings as such; see also [Config.ValidateHold].
func (c Config) Validate() error {
	var l fault.List
	l.Refuse(c.Window < leastWindow || c.Window > mostWindow, "window", c.Window, "must be from 1m to 744h")
	l.Refuse(c.Margin < leastMargin || c.Margin > mostMargin, "margin", c.Margin, "must be from 20ms to 1m")
	return l.Err()
}

// ValidateHold returns the fault of the settings with calls that may take so long.
func (c Config) ValidateHold(callTimeout time.Duration) error {
	var l fault.List
	hold := c.Hold(callTimeout)
	l.Refuse(hold > c.Window/holdsInWindow, "window", c.Window,
		"must be at least ten times the hold of %s: sender.http.timeout of %s and twice dedup.margin of %s", hold, callTimeout, c.Margin)
	return l.Err()
}

// Options for [New]. Redis, Namespace and CallTimeout are required; a Window or a
// Margin of zero is a day or a second.
type Options struct {
	Config

	Redis     redis.Scripter // as from redisclient.New; it must not repeat a command by itself
	Namespace string         // of the provider; all its keys share a hash slot
	// CallTimeout is the longest time from the first byte of a call to its result.
	CallTimeout time.Duration
	// TakeOver grants a job whose claim has ended without a result (on_unknown:
	// retry). Otherwise the answer is [Unknown].
	TakeOver bool

	Logger     *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: metrics are not exported
}

func (o Options) withDefaults() Options {
	o.Window = cmp.Or(o.Window, 24*time.Hour)
	o.Margin = cmp.Or(o.Margin, time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

func (o Options) validate() error {
	if o.Redis == nil {
		return errors.New("dedup: Options.Redis is nil")
	}
	var l fault.List
	l.Refuse(o.Namespace == "" || strings.ContainsAny(o.Namespace, "{}"), "dedup: namespace", o.Namespace, "must be a name without braces")
	l.Refuse(o.CallTimeout <= 0, "dedup: call timeout", o.CallTimeout, "must be above 0")
	l.Under("dedup", o.Validate())
	l.Under("dedup", o.ValidateHold(o.CallTimeout))
	return l.Err()
}
