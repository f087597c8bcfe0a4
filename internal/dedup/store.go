package dedup

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"dispatcher/lua"
)

// Defaults of [Options].
const (
	DefaultWindow = 24 * time.Hour
	DefaultMargin = time.Second
	DefaultGather = 8 * time.Millisecond
)

// Bounds of [Options].
const (
	leastWindow = time.Minute
	mostWindow  = 31 * 24 * time.Hour
	leastMargin = 20 * time.Millisecond // a call to Redis, and what is put on top
	mostGather  = 100 * time.Millisecond
)

// Options for [New]. Redis, Namespace and CallTimeout are required.
type Options struct {
	Redis     redis.Scripter // as from throttle.NewClient; it must not send anything again by itself
	Namespace string         // of the provider; all keys of one share a hash slot

	// Window is for how long a job is remembered after it was claimed or done;
	// 1 minute to 31 days.
	Window time.Duration
	// CallTimeout is the longest from the first byte of a call to its result.
	CallTimeout time.Duration
	// Margin is how long after it was asked for a claim may be used, and how
	// long a done may be on its way. At least 20 ms; a tenth of the window with
	// the call's timeout at most.
	Margin time.Duration
	// Gather is how long an entry may wait for company: a claim that is needed
	// later, and all that nobody waits for. At most 100 ms.
	Gather time.Duration
	// TakeOver grants a job whose claim stood for too long, where nobody knows
	// what became of its call (on_unknown: retry). Otherwise the answer is
	// [Unknown].
	TakeOver bool

	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// Store is one node's side of the dedup store. [Store.Run] talks to Redis;
// everything else may be called from any goroutine.
type Store struct {
	opts    Options
	log     *slog.Logger
	metrics *metrics
	run     runFunc       // runs dedup.lua; a test puts a model in its place
	name    string        // of this start: 64 random bits
	opened  atomic.Uint64 // entries, which each have a number of their own
	wake    chan struct{} // room for one: something was queued, or hurries

	mu    sync.Mutex
	queue queue
	state error // why Redis did not answer last; nil: it did
}

// New checks the options; it does not talk to Redis.
func New(o Options) (*Store, error) {
	if o.Redis == nil {
		return nil, errors.New("dedup: Options.Redis is nil")
	}
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	s := script{rdb: o.Redis, text: redis.NewScript(lua.Dedup()), prefix: prefix(o.Namespace), terms: o.terms()}
	return &Store{
		opts:    o,
		log:     o.Logger,
		metrics: newMetrics(o.Registerer),
		run:     s.run,
		name:    base64.RawURLEncoding.EncodeToString(random),
		wake:    make(chan struct{}, 1),
	}, nil
}

func (o Options) withDefaults() Options {
	if o.Window == 0 {
		o.Window = DefaultWindow
	}
	if o.Margin == 0 {
		o.Margin = DefaultMargin
	}
	if o.Gather == 0 {
		o.Gather = DefaultGather
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) validate() error {
	refuse := func(ok bool, field string, value any, why string) error {
		if ok {
			return nil
		}
		return fmt.Errorf("dedup: %s: %v: %s", field, value, why)
	}
	return errors.Join(
		refuse(o.Namespace != "" && !strings.ContainsAny(o.Namespace, "{}"), "namespace", fmt.Sprintf("%q", o.Namespace), "must be a name without braces"),
		refuse(o.Window >= leastWindow && o.Window <= mostWindow, "window", o.Window, "must be 1m to 744h"),
		refuse(o.CallTimeout > 0, "call timeout", o.CallTimeout, "must be above 0"),
		refuse(o.Margin >= leastMargin, "margin", o.Margin, "must be at least 20ms"),
		refuse(o.Hold() <= o.Window/10, "call timeout", o.CallTimeout, "with twice the margin it must be a tenth of the window at most"),
		refuse(o.Gather > 0 && o.Gather <= mostGather, "gather", o.Gather, "must be above 0 and at most 100ms"),
	)
}

// Hold is for how long a claim stands: then its call is over, or its node gone.
func (o Options) Hold() time.Duration { return o.CallTimeout + 2*o.Margin }

func (o Options) terms() terms {
	return terms{period: o.Window / 2, window: o.Window, hold: o.Hold(), take: o.TakeOver}
}

// Ready is why nothing can be claimed now, or nil.
func (l *Store) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}
