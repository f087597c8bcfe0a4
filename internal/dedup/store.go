package dedup

import (
	"crypto/rand"
	"encoding/base64"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/boottime"
	"dispatcher/lua"
)

// Store is one node's side of the dedup store. [Store.Run] calls Redis. All other
// methods may be called from any goroutine.
type Store struct {
	margin  time.Duration
	gather  time.Duration
	log     *slog.Logger
	metrics *metrics
	run     runFunc       // runs dedup.lua; a test puts a model in its place
	name    string        // 64 random bits, new at each start
	opened  atomic.Uint64 // entries; their numbers tell them apart
	wake    chan struct{} // one slot: an entry was queued, or is urgent

	suspended func() time.Duration // boottime.Suspended; a test puts its own in its place

	mu    sync.Mutex
	queue queue
	state error // of the last call
}

// gather is how long an entry waits for others to share its call, unless it is needed
// earlier.
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
		terms: terms{period: o.Window / 2, window: o.Window, hold: o.Hold(o.CallTimeout), takeOver: o.TakeOver},
	}
	return &Store{
		margin:  o.Margin,
		gather:  gather,
		log:     o.Logger,
		metrics: newMetrics(o.Registerer),
		run:     s.run,
		name:    base64.RawURLEncoding.EncodeToString(random),
		wake:    make(chan struct{}, 1),

		suspended: boottime.Suspended,
	}, nil
}

// Ready returns why no job can be claimed now, or nil.
func (s *Store) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}
