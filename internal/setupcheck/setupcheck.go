package setupcheck

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/configs"
	"dispatcher/throttle"
)

// Level says how bad a finding is.
type Level string

// The levels.
const (
	Warning Level = "warning" // the fleet works, and loses something
	Fault   Level = "fault"   // nothing is sent, or a promise does not hold
)

// Finding is something that a set-up lacks.
type Finding struct {
	Check  string `json:"check"` // the name of the check
	Level  Level  `json:"level"`
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"` // empty: none is known
}

// String is the finding in one line.
func (f Finding) String() string {
	text := f.Check + ": " + f.Found
	if f.Remedy != "" {
		text += "; " + f.Remedy
	}
	return text
}

// Options says what to check. Config is required.
type Options struct {
	Config     configs.Config
	Redis      redis.UniversalClient                         // nil: each node keeps a limit of its own
	Identity   throttle.Identity                             // [throttle.IdentityNone]: the server can't tell its settings either
	Lead       time.Duration                                 // how long before its slot a worker gets a job
	Partitions func(context.Context) (map[string]int, error) // of each topic of jobs; nil: not checked
	Latency    time.Duration                                 // of the calls up to now; 0: not known
	Now        func() time.Time                              // this host's clock; nil: time.Now

	// Fleet names what nodes have in common, such as a hash of their settings. Of the nodes with the same name one a minute checks
	// what concerns all of them. Empty: what concerns the fleet is checked here.
	Fleet string

	// Retention is how long Kafka keeps the offsets of a group without nodes, and the records of each topic that nodes
	// read. 0 or missing: not known. nil: not checked.
	Retention func(context.Context) (offsets time.Duration, records map[string]time.Duration, err error)
}

// check is one of the checks. An error says that it could not be made.
type check struct {
	name  string
	about scope
	find  func(context.Context, *setup) ([]Finding, error)
}

// scope says for whom a check is made.
type scope int

const (
	fleet scope = iota // its answer is the same on each node
	host               // each node makes it
)

// ofRedis are the checks that ask Redis. Later ones use what earlier ones learned.
var ofRedis = []check{ //nolint:gochecknoglobals // a constant table
	{"rights", fleet, rights},
	{"limiter", fleet, limiter},
	{"eviction", fleet, eviction},
	{"persistence", fleet, persistence},
	{"round_trip", host, roundTrip},
	{"clock", host, hostClock},
	{"partitions", fleet, partitions},
}

// ofSettings are the checks that can do without Redis.
var ofSettings = []check{{"retention", fleet, retention}, {"workers", host, workers}} //nolint:gochecknoglobals // a constant table

// Run makes the checks, which takes about two seconds, and returns what they found. It ends early with ctx.
func Run(ctx context.Context, o Options) []Finding {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &setup{Options: o, claim: rand.Text(), contract: o.Config.Limits[0].Stated().Contract, algorithm: o.Config.Limits[0].Algorithm}
	var found []Finding
	if o.Redis != nil {
		if err := patiently(ctx, func() error { return s.ask(ctx) }); err != nil {
			found = append(found, Finding{Check: "redis", Level: Fault, Found: "the checks of it were left out: " + err.Error()})
		} else {
			found = s.run(ctx, ofRedis)
		}
	}
	return append(found, s.run(ctx, ofSettings)...)
}

func (s *setup) run(ctx context.Context, checks []check) (found []Finding) {
	for _, c := range checks {
		if c.about == fleet && s.others {
			continue
		}
		var list []Finding
		err := patiently(ctx, func() (err error) { list, err = c.find(ctx, s); return err })
		for _, f := range list {
			f.Check = c.name
			found = append(found, f)
		}
		if err != nil && (!s.denied || !isDenied(err)) { // the check of the rights has said why
			found = append(found, Finding{Check: c.name, Level: Warning, Found: "could not be checked: " + err.Error()})
		}
	}
	return found
}

// tries is how often a server is asked that does not answer in time.
const tries = 3

func patiently(ctx context.Context, do func() error) (err error) {
	for range tries {
		if err = do(); err == nil || isReply(err) || ctx.Err() != nil {
			break
		}
	}
	return err
}

// isReply tells an error that Redis replied from one of the way to it.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// isDenied tells an answer that the account lacks a right, inside a script or not.
func isDenied(err error) bool {
	text := err.Error()
	return strings.Contains(text, "NOPERM") || strings.Contains(text, "ACL failure") || strings.Contains(text, "The user executing the script") ||
		strings.Contains(text, "IDENTITY")
}

func warn(remedy, format string, values ...any) []Finding {
	return []Finding{{Level: Warning, Found: fmt.Sprintf(format, values...), Remedy: remedy}}
}

func fault(remedy, format string, values ...any) []Finding {
	return []Finding{{Level: Fault, Found: fmt.Sprintf(format, values...), Remedy: remedy}}
}
