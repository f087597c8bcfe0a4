package throttle

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"dispatcher/internal/boottime"
)

// Identity is how a script learns which Redis master it runs on, so that the
// timeline begins anew after a failover.
type Identity string

const (
	// IdentityInfo reads master_replid from INFO replication. It changes on
	// promotion, fail-back and restart.
	IdentityInfo Identity = "info"
	// IdentityNone is for a server that can't tell, as the embedded one: a
	// failover would go unseen. [State] says so.
	IdentityNone Identity = "none"
)

// Options for [New]. Redis, Namespace, Name and Seed are required; Redis not with [ScopeNode].
type Options struct {
	Redis     redis.UniversalClient // as from [NewClient]; its timeouts matter
	Namespace string                // limits of one namespace share a hash slot
	Name      string                // of the limit
	Node      string                // for people; a random part is added per start
	Algorithm string                // name of one of [Algorithms]; default [DefaultAlgorithm]
	Seed      Contract              // what the file says; used where Redis and the other nodes know nothing
	Rails     Rails                 // likewise
	Identity  Identity              // default IdentityInfo
	Bucket    Bucket                // of a leaky bucket

	Scope  Scope         // who keeps the limit together; default ScopeCluster
	WarmUp time.Duration // with ScopeNode: in which the rate rises from a third to the whole

	// Waiting tells how many callers could use a slot now but have not called
	// Next yet, so that a block of slots can be booked at once. It must be
	// cheap and safe for concurrent use. Optional.
	Waiting func() int

	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// Limiter hands out the slots of one limit that the whole fleet keeps
// together. [Limiter.Run] books them; everything else may be called from any
// goroutine.
type Limiter struct {
	opts    Options
	log     *slog.Logger
	metrics *metrics
	line    line
	heard   atomic.Bool   // Redis has told this node something since it subscribed, so it will tell it of changes
	listens atomic.Bool   // the node has subscribed
	spacing atomic.Int64  // of the settings in force, in nanoseconds
	wake    chan struct{} // room for one: somebody began to wait
	changed chan struct{} // room for one: Redis told of a change
	listen  func(context.Context)
	book    bookFunc  // runs book.lua; a test puts a model in its place
	share   shareFunc // runs share.lua; likewise
	shares  *shareMetrics

	lateness  reportFunc    // runs lateness.lua; likewise
	configure configureFunc // runs configure.lua; likewise
	node      string        // unique per start
	host      *host
	trips     tripNotes

	mu    sync.Mutex
	state State
}

var nameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// CheckName refuses a name of a limit or namespace that has no place in a key.
func CheckName(field, name string) error {
	if nameRE.MatchString(name) {
		return nil
	}
	return &FieldError{Field: field, Value: fmt.Sprintf("%q", name), Why: "must be 1 to 63 of a-z, 0-9, - and _, and begin with a letter or digit"}
}

// New checks the options; it does not talk to Redis.
func New(opts Options) (*Limiter, error) {
	if opts.Redis == nil && opts.Scope != ScopeNode {
		return nil, errors.New("throttle: Options.Redis is nil")
	}
	_, err := Check(opts.Algorithm, opts.Seed, opts.Rails)
	if err := errors.Join(
		CheckName("namespace", opts.Namespace), CheckName("name", opts.Name), err,
		CheckScope(opts.Scope, opts.Seed, opts.Algorithm, opts.WarmUp), CheckBucket(opts.Bucket, opts.Algorithm, opts.Seed),
	); err != nil {
		return nil, err
	}
	if opts.Identity == "" {
		opts.Identity = IdentityInfo
	}
	if opts.Waiting == nil {
		opts.Waiting = func() int { return 0 }
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	node := nodeID(opts.Node)
	l := &Limiter{
		opts:    opts,
		log:     opts.Logger.With("limit", opts.Name),
		metrics: newMetrics(opts.Registerer, opts.Name),
		wake:    make(chan struct{}, 1),
		changed: make(chan struct{}, 1),
		book:    newScripts(opts.Redis, opts.Namespace, opts.Name, node).runBook,
		share:   newShareScript(opts.Redis, opts.Namespace, opts.Name, node, opts.Identity).run,
		shares:  newShareMetrics(opts.Registerer, opts.Name),

		lateness:  newLatenessScript(opts.Redis, opts.Namespace, opts.Name).run,
		configure: newScripts(opts.Redis, opts.Namespace, opts.Name, node).runConfigure,
		state:     State{Phase: PhaseStarting, Settings: seeded(opts.Algorithm, opts.Seed, opts.Rails), Fenced: opts.Identity != IdentityNone},
	}
	l.node, l.host = node, &host{suspended: boottime.Suspended}
	l.listen = l.subscribe
	if opts.Scope == ScopeNode {
		l.book = newLocal(opts.Seed, opts.WarmUp, time.Now()).book
		l.listen = func(context.Context) {} // there is nobody to listen to
	}
	l.spacing.Store(int64(opts.Seed.Spacing()))
	return l, nil
}

// Next waits for a slot at the end of the line. It returns the context's
// cause when that ends first, and [ErrFull] where a full bucket refuses. The
// slot may lie up to one horizon ahead: see [Slot.WaitNear] and [Slot.Wait].
func (l *Limiter) Next(ctx context.Context) (Slot, error) { return l.join(ctx, false) }

// Again waits for a slot at the head of the line: for a job that lost its slot
// by being late, or that has waited its turn before. A full bucket does not
// refuse it: it was let in once.
func (l *Limiter) Again(ctx context.Context) (Slot, error) { return l.join(ctx, true) }

func (l *Limiter) join(ctx context.Context, again bool) (Slot, error) {
	slot, place := l.line.take(time.Now(), again)
	if place == nil {
		return slot.orFull()
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return l.line.await(ctx, place)
}

// Spacing is the time between two slots under the settings in force.
func (l *Limiter) Spacing() time.Duration { return time.Duration(l.spacing.Load()) }

// Used reports when the call of a slot began, for the lateness histogram and for
// a guard that is auto.
func (l *Limiter) Used(s Slot, at time.Time) {
	l.metrics.used(at.Sub(s.NotBefore))
	l.line.counter.count(s, at)
}

// Missed reports that a slot is late now that it was to be used, or that its call
// could not be written.
func (l *Limiter) Missed(s Slot) { l.line.missed(s, time.Now()) }

// GiveBack returns a slot that was taken and not used, for whoever waits here. It
// may go to waste all the same.
func (l *Limiter) GiveBack(s Slot) { l.line.giveBack(s, time.Now()) }

// nodeID is unique per start: two processes with one name must never be taken
// for each other, or both would use the same slots.
func nodeID(name string) string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	return name + "-" + hex.EncodeToString(b[:])
}
