package dedup

import (
	"crypto/rand"
	"encoding/base64"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/lua"
)

// Store is one node's side of the dedup store. [Store.Run] talks to Redis;
// everything else may be called from any goroutine.
type Store struct {
	margin  time.Duration
	gather  time.Duration
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

// gather is how long an entry may wait for others to share its call: a claim that is
// needed later, and all that nobody waits for.
const gather = 8 * time.Millisecond

// New checks the options; it does not talk to Redis.
func New(o Options) (*Store, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	s := script{
		rdb: o.Redis, text: redis.NewScript(lua.Dedup()), prefix: prefix(o.Namespace),
		terms: terms{period: o.Window / 2, window: o.Window, hold: o.Hold(o.CallTimeout), take: o.TakeOver},
	}
	return &Store{
		margin:  o.Margin,
		gather:  gather,
		log:     o.Logger,
		metrics: newMetrics(o.Registerer),
		run:     s.run,
		name:    base64.RawURLEncoding.EncodeToString(random),
		wake:    make(chan struct{}, 1),
	}, nil
}

// Ready is why nothing can be claimed now, or nil.
func (l *Store) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}
