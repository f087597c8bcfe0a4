package configs

import (
	"time"

	"dispatcher/admin"
	"dispatcher/consumer"
	"dispatcher/internal/dedup"
	"dispatcher/internal/tlsfiles"
	"dispatcher/internal/tracing"
	"dispatcher/sender"
)

// Config is everything that can be set. default.yaml has the meaning and the default
// of each key.
type Config struct {
	Node   string          `yaml:"node"`
	Log    Log             `yaml:"log"`
	Kafka  consumer.Config `yaml:"kafka"`
	Redis  Redis           `yaml:"redis"`
	Limits []Limit         `yaml:"limits"`
	Cost   string          `yaml:"cost"` // an expression; empty: the header cost
	Sender Sender          `yaml:"sender"`
	Dedup  dedup.Config    `yaml:"dedup"`
	Admin  admin.Config    `yaml:"admin"`

	Tracing tracing.Config `yaml:"tracing"`

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

// Sender is the section sender: how a job is sent, and what follows if that fails.
type Sender struct {
	HTTP      sender.Config `yaml:"http"`       // header names are in lower case
	OnUnknown string        `yaml:"on_unknown"` // retry, park, dlq
	Retry     Retry         `yaml:"retry"`
	Breaker   Breaker       `yaml:"breaker"`
}

// Retry is how often, and after which waits, a failed call is repeated.
type Retry struct {
	Attempts   int           `yaml:"attempts"` // failures attributed to a job, before it is a dead letter
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
