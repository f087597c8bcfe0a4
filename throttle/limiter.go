package throttle

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"dispatcher/internal/boottime"
	"dispatcher/throttle/feedback"
	"dispatcher/throttle/internal/gates"
	"dispatcher/throttle/internal/inquiry"
	"dispatcher/throttle/internal/lease"
	"dispatcher/throttle/internal/local"
	"dispatcher/throttle/internal/metrics"
	"dispatcher/throttle/internal/notify"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/internal/slots"
	"dispatcher/throttle/lateness"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/phase"
)

// Identity is how a script learns which Redis master it runs on, so that the
// timeline begins again after a failover.
type Identity string

const (
	// IdentityInfo reads master_replid from INFO replication. It changes on
	// promotion, fail-back and restart.
	IdentityInfo Identity = "info"
	// IdentityNone is for a server that can't tell, as the embedded one: nobody
	// would notice a failover.
	IdentityNone Identity = "none"
)

// Options for [New]. Redis, Namespace, Name and Limit are required; Redis not with [ScopeNode].
type Options struct {
	Redis     redis.UniversalClient // as from package redisclient; its timeouts matter
	Namespace string                // limits of one namespace share a hash slot
	Name      string                // of the limit
	Node      string                // for people; a random part is added per start
	Limit     limit.Spec            // as the file states it: terms and guardrails seed a Redis that, like the other nodes, knows none
	Identity  Identity              // default IdentityInfo
	Gates     []Gate                // the other limits of the jobs; not with [ScopeNode]
	Waiting   func() map[string]int // jobs that wait for each gate, by its name; nil: not known
	Learned   func(limit.Settings)  // gets the settings that are in force, at the start and after each change; must not block; nil: nobody does
	MinShares []float64             // of the units, for each lane of jobs while it waits, the most urgent lane first; none: jobs have no lanes

	// CallTimeout is the longest time from a call's write to its end. With max_in_flight,
	// the calls of a node that died count for as long, and somewhat longer.
	CallTimeout time.Duration

	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// Limiter reserves slots of one limit that the whole fleet keeps together.
// [Limiter.Run] talks to Redis. [Limiter.Turn] and [Limiter.Reserve] are for one
// goroutine; everything else may be called from any goroutine.
type Limiter struct {
	opts    Options
	log     *slog.Logger
	metrics *metrics.Limit
	leases  *metrics.Lease
	node    string // unique per start
	slots   *slots.Validity
	trips   lateness.TripNotes
	counter lateness.Counter // of slots that were used, and of those that were late
	answers feedback.Counter // of calls, and of those that the provider refused for their rate
	missed  atomic.Int64     // slots that could not be used, since the last reservation
	busy    atomic.Int64     // slots that are out, and calls in flight
	freed   chan struct{}    // holds one: a call in flight is over, where these are bounded
	bounded atomic.Bool      // the settings in force have max_in_flight
	spacing atomic.Int64     // of the settings in force, in nanoseconds
	gates   gates.Known
	binds   []atomic.Uint64 // bits of the share of the time in which jobs waited, for each limit

	notices     *notify.Subscription
	turns       chan inquiry.Inquiry[Lanes, Room]
	batches     chan inquiry.Inquiry[[]Request, []Answer]
	retries     chan inquiry.Inquiry[Request, Slot]
	changed     chan struct{} // holds one: Redis notified the node of a change
	corrected   chan struct{} // holds one: there are corrections
	corrections slots.Corrections
	refunds     atomic.Bool // the algorithm in force grants units again that were not used
	listen      func(context.Context)

	// Each runs one script; tests put models in their place.
	reserve  reserveFunc
	askLease leaseFunc
	reports  reports

	mu    sync.Mutex
	state phase.State
}

// reserveFunc asks for slots once.
type reserveFunc func(context.Context, script.Ask) (script.Reservation, error)

// New checks the options; it does not talk to Redis.
func New(opts Options) (*Limiter, error) {
	if opts.Redis == nil && opts.Limit.Scope != limit.ScopeNode {
		return nil, errors.New("throttle: Options.Redis is nil")
	}
	if err := errors.Join(limit.CheckName("namespace", opts.Namespace), limit.CheckName("name", opts.Name), limit.CheckNode("node", opts.Node), opts.Limit.Validate(), gates.Check(opts.Gates, opts.Name, opts.Limit), checkMinShares(opts.MinShares)); err != nil {
		return nil, err
	}
	opts.Gates = gates.Marked(opts.Gates)
	if opts.Identity == "" {
		opts.Identity = IdentityInfo
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	node := nodeID(opts.Node)
	scripts := script.NewScripts(opts.Redis, opts.Namespace, opts.Name, node)
	l := &Limiter{
		opts:      opts,
		log:       opts.Logger.With("limit", opts.Name),
		leases:    metrics.NewLease(opts.Registerer, opts.Name),
		node:      node,
		slots:     slots.NewValidity(boottime.Suspended, boottime.Last),
		turns:     make(chan inquiry.Inquiry[Lanes, Room]),
		batches:   make(chan inquiry.Inquiry[[]Request, []Answer]),
		retries:   make(chan inquiry.Inquiry[Request, Slot]),
		changed:   make(chan struct{}, 1),
		corrected: make(chan struct{}, 1),
		freed:     make(chan struct{}, 1),
		reserve:   scripts.Reserve,
		state:     phase.State{Phase: phase.Starting, Settings: opts.Limit.Settings()},
	}
	l.reports.init(l, scripts)
	l.binds = make([]atomic.Uint64, 1+len(opts.Gates))
	l.metrics = metrics.New(opts.Registerer, opts.Name, l.names()[1:], func() float64 { return float64(l.busy.Load()) })
	l.gates = gates.New(opts.Gates, opts.Limit.Terms, l.log, l.metrics)
	metrics.Phase(opts.Registerer, opts.Name, phase.Names(), func() string { return string(l.State().Phase) })
	for i, name := range l.names() {
		metrics.Binds(opts.Registerer, name, func() float64 { return l.Binds(i) })
		metrics.Paused(opts.Registerer, name, func() bool { return l.Settings(i).Paused })
	}
	l.askLease = func(ctx context.Context, state script.LeaseState, left time.Duration) (script.LeaseReply, error) {
		return scripts.Lease(ctx, string(opts.Identity), lease.Length, state, left)
	}
	l.notices = notify.New(opts.Redis, opts.Namespace, l.names(), node, l.changed)
	l.listen = l.notices.Run
	if opts.Limit.Scope == limit.ScopeNode {
		l.reserve = local.New(opts.Limit, time.Now()).Reserve
		l.listen = func(context.Context) {} // nobody notifies the node
	}
	l.spacing.Store(int64(opts.Limit.Spacing()))
	l.bounded.Store(opts.Limit.MaxInFlight > 0)
	return l, nil
}

// names are those of all limits, the first one first.
func (l *Limiter) names() []string {
	names := []string{l.opts.Name}
	for _, g := range l.opts.Gates {
		names = append(names, g.Name)
	}
	return names
}

// Spacing is the time between two slots under the settings in force.
func (l *Limiter) Spacing() time.Duration { return time.Duration(l.spacing.Load()) }

// Refuses reports whether jobs for which a full bucket has no room get [ErrFull]. Then all
// jobs that wait are to be asked for at once.
func (l *Limiter) Refuses() bool {
	return l.opts.Limit.Refuses() && l.State().Settings.Algorithm == limit.LeakyBucket
}

// wake has the reserving goroutine look at what has come.
func (l *Limiter) wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// nodeID is unique per start: two processes with one name must never be taken
// for each other, or both would use the same slots.
func nodeID(name string) string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	return name + "-" + hex.EncodeToString(b[:])
}
