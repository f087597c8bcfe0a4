package configs

import (
	"time"

	"dispatcher/admin"
	"dispatcher/consumer"
	"dispatcher/internal/dedup"
	"dispatcher/internal/tlsfiles"
	"dispatcher/sender"
	"dispatcher/throttle"
)

// Config is everything that can be set. default.yaml has the meaning and the default
// of each key.
type Config struct {
	Node   string          `yaml:"node"`
	Log    Log             `yaml:"log"`
	Kafka  consumer.Config `yaml:"kafka"`
	Redis  Redis           `yaml:"redis"`
	Limits []Limit         `yaml:"limits"`
	Sender Sender          `yaml:"sender"`
	Dedup  dedup.Config    `yaml:"dedup"`
	Admin  admin.Config    `yaml:"admin"`

	written map[string]string // the texts with references, as they were written, by path
	env     map[string]string // the environment in which the references were looked up
}

// Log is the section log.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn, error
	Format string `yaml:"format"` // text, json
}

// Redis is the section redis: the server of the fleet's limit. One address is a single
// server; several are a Redis Cluster or, with Master set, its sentinels.
type Redis struct {
	Addrs    []string `yaml:"addrs"`
	Master   string   `yaml:"master"`
	Cluster  bool     `yaml:"cluster"` // also with one address
	Username string   `yaml:"username"`
	Password string   `yaml:"password" secret:"true"`

	SentinelUsername string `yaml:"sentinel_username"`
	SentinelPassword string `yaml:"sentinel_password" secret:"true"`

	Namespace string            `yaml:"namespace"`
	TLS       tlsfiles.Settings `yaml:"tls"`
}

// Limit seeds one limit: what the provider allows, and how that is kept.
type Limit struct {
	Name      string        `yaml:"name"`
	Algorithm string        `yaml:"algorithm"`
	Cap       int64         `yaml:"cap"` // units in any Window
	Window    time.Duration `yaml:"window"`
	Burst     int64         `yaml:"burst"`     // units
	Capacity  int64         `yaml:"capacity"`  // units, of a leaky bucket; 0: what the horizon holds
	WhenFull  string        `yaml:"when_full"` // of a leaky bucket: wait, refuse
	Guard     string        `yaml:"guard"`     // auto, or a duration
	Lateness  time.Duration `yaml:"lateness"`  // with guard auto: to begin with
	Spread    time.Duration `yaml:"spread"`
	Horizon   time.Duration `yaml:"horizon"`
	MaxCap    int64         `yaml:"max_cap"`  // units; 0: no ceiling
	MaxStep   float64       `yaml:"max_step"` // factor; 0: none
	Degraded  string        `yaml:"degraded"` // while Redis is away: wait, reserve
	Reserve   int64         `yaml:"reserve"`  // units of Cap
	MaxNodes  int64         `yaml:"max_nodes"`
	Scope     string        `yaml:"scope"`   // cluster, node
	WarmUp    time.Duration `yaml:"warm_up"` // with scope node; 0: none
}

// What a node does while Redis is away.
const (
	DegradedWait    = "wait"
	DegradedReserve = "reserve"
)

// Rails are what `limit set` does not pass unless it is forced.
func (l Limit) Rails() throttle.Rails {
	return throttle.Rails{MaxCap: l.MaxCap, MaxStep: throttle.StepOf(l.MaxStep)}
}

// Bucket is what a leaky bucket does beyond its rate.
func (l Limit) Bucket() throttle.Bucket {
	return throttle.Bucket{Capacity: l.Capacity, WhenFull: throttle.WhenFull(l.WhenFull)}
}

// Contract is the limit in the limiter's own terms.
func (l Limit) Contract() throttle.Contract {
	guard, err := l.guard()
	return throttle.Contract{
		Cap: l.Cap, Window: l.Window, Burst: l.Burst,
		Guard: guard, Lateness: l.Lateness, Spread: l.Spread, Auto: l.Guard == GuardAuto || err != nil, Horizon: l.Horizon,
		Reserve: l.Reserve, MaxNodes: l.MaxNodes,
	}
}

// GuardAuto is a guard that the fleet chooses.
const GuardAuto = "auto"

// guard is the one to begin with. The error says that the text is none.
func (l Limit) guard() (time.Duration, error) {
	auto := l.Lateness + l.Spread
	if l.Guard == GuardAuto {
		return auto, nil
	}
	d, err := time.ParseDuration(l.Guard)
	if err != nil {
		return auto, err
	}
	return d, nil
}

// Sender is the section sender: how a job is sent, and what follows if that fails.
type Sender struct {
	HTTP      sender.Config `yaml:"http"`       // header names are in lower case
	OnUnknown string        `yaml:"on_unknown"` // retry, park, dlq
	Retry     Retry         `yaml:"retry"`
	Breaker   Breaker       `yaml:"breaker"`
}

// Retry is how often, and after which waits, a failed call is repeated.
type Retry struct {
	Attempts   int           `yaml:"attempts"` // calls in all
	Backoff    time.Duration `yaml:"backoff"`
	MaxBackoff time.Duration `yaml:"max_backoff"`
}

// Breaker is when the provider counts as down, and how often it is probed then.
type Breaker struct {
	Failures int           `yaml:"failures"` // in a row
	Probe    time.Duration `yaml:"probe"`
}

// The choices after a call that was written and got no answer.
const (
	UnknownRetry = "retry"
	UnknownPark  = "park"
	UnknownDead  = "dlq"
)
