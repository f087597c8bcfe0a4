package node

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"dispatcher/configs"
	"dispatcher/internal/node/gates"
	"dispatcher/throttle"
)

// simulatedRedis runs the real scripts at the bubble's time. A call takes as long
// as the trip. It notifies nobody, so nodes poll.
type simulatedRedis struct {
	redis.UniversalClient

	deaf *redis.Client
	mini *miniredis.Miniredis
	trip time.Duration // there and back

	mu     sync.Mutex
	seen   time.Time // the bubble's time at the last call
	outage outage
}

// outage is how Redis fails. Its zero value is that it does not.
type outage int

const (
	unreached outage = 1 + iota
	unheard          // it does what it is asked, and its replies are lost
	silent           // no call gets an answer in its time
)

func (s *simulatedRedis) fail(how outage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outage = how
}

func (s *simulatedRedis) failing() outage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outage
}

var errOutage = errors.New("connection refused")

func newSimulatedRedis(mini *miniredis.Miniredis, trip time.Duration) *simulatedRedis {
	s := &simulatedRedis{
		mini: mini, trip: trip, seen: time.Now(),
		// The timeouts are real time: a loaded machine may take long, and the bubble's time stands still meanwhile.
		UniversalClient: redis.NewClient(&redis.Options{Addr: mini.Addr(), ReadTimeout: time.Minute, WriteTimeout: time.Minute, DialTimeout: time.Minute}),
		deaf: redis.NewClient(&redis.Options{Addr: mini.Addr(), Dialer: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("nobody is notified")
		}}),
	}
	s.AddHook(s)
	return s
}

// Subscribe fails. A goroutine that reads from a real connection would stop the bubble's time.
func (s *simulatedRedis) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	return s.deaf.Subscribe(ctx, channels...)
}

func (s *simulatedRedis) Close() error { return errors.Join(s.UniversalClient.Close(), s.deaf.Close()) }

// DialHook implements [redis.Hook], as do the other hooks.
func (s *simulatedRedis) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *simulatedRedis) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		time.Sleep(s.trip / 2)
		how := s.failing()
		var err error
		switch how {
		case unreached:
		case silent:
			<-ctx.Done()
		case 0, unheard:
			s.setClock()
			err = next(ctx, cmd)
		}
		time.Sleep(s.trip / 2)
		if how != 0 {
			cmd.SetErr(errOutage)
			return errOutage
		}
		return err
	}
}

func (s *simulatedRedis) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// setClock moves Redis's clock to the bubble's time.
func (s *simulatedRedis) setClock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.mini.SetTime(now)
	s.mini.FastForward(now.Sub(s.seen))
	s.seen = now
}

// makeFleetLimiter makes the limiter and the gates that the limits of the setup say.
func (b *bubble) makeFleetLimiter() {
	b.Helper()
	cfg := configs.Config{Limits: b.limits}
	var beside []throttle.Gate
	var names []string
	for _, g := range cfg.Gates() {
		names = append(names, g.Name)
		beside = append(beside, throttle.Gate{Name: g.Name, Limit: g.Spec})
	}
	b.metrics = prometheus.NewRegistry()
	var err error
	b.limiter, err = throttle.New(throttle.Options{
		Redis: b.redis, Namespace: "ns", Name: cfg.Limits[0].Name, Node: "n", Limit: cfg.Limits[0].Stated(), Identity: throttle.IdentityNone, Gates: beside,
		Registerer: b.metrics,
	})
	b.must(err)
	b.gates, err = gates.New(cfg, b.limiter, gateRefusals(b.metrics, names, b.consumer.Deferred))
	b.must(err)
	b.gates.MaxValues = cmp.Or(b.maxValues, b.gates.MaxValues)
}
