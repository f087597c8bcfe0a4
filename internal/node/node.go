package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"

	"dispatcher/admin"
	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/internal/dedup"
	"dispatcher/internal/fleet"
	"dispatcher/sender"
	"dispatcher/throttle"
	"dispatcher/throttle/limit"
)

// Node is one process of the fleet. Make it with [New]; it can be run once.
type Node struct {
	cfg      configs.Config
	log      *slog.Logger
	registry *prometheus.Registry
	redis    redis.UniversalClient
	consumer *consumer.Consumer
	limiter  *throttle.Limiter
	fleet    *fleet.Membership // nil: each node keeps a limit of its own
	dedup    *dedup.Store      // nil: there is none
	sender   *sender.HTTP
	provider *provider
	admin    *admin.Server
	blocked  atomic.Bool // the line can't use slots: set by it, read by the limiter
}

// New puts a node together from a valid configuration. It connects to nothing
// yet but listens for the admin server. The identity says how Redis's master is
// told from another; the zero value suits a real one.
func New(cfg configs.Config, log *slog.Logger, identity throttle.Identity) (*Node, error) {
	n := &Node{cfg: cfg, log: log, registry: prometheus.NewRegistry()}
	n.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	err := n.make(identity)
	if err == nil {
		err = n.makeAdmin()
	}
	if err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// Check makes all of a node but its admin server, and throws it away: what it
// does not refuse, [New] does not refuse either, as long as the address is free.
// Nothing is connected to.
func Check(cfg configs.Config) error {
	n := &Node{cfg: cfg, log: slog.New(slog.DiscardHandler), registry: prometheus.NewRegistry()}
	defer n.close()
	return n.make(throttle.IdentityInfo)
}

func (n *Node) make(identity throttle.Identity) error {
	return errors.Join(n.makeConsumer(), n.makeLimiter(identity), n.makeDedup(), n.makeSender())
}

func (n *Node) makeConsumer() error {
	o, err := consumerOptions(n.cfg, n.log, n.registry)
	if err != nil {
		return err
	}
	if n.consumer, err = consumer.New(o); err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	return nil
}

func (n *Node) makeLimiter(identity throttle.Identity) (err error) {
	file := n.cfg.Limits[0]
	scope := file.Scope
	if scope != limit.ScopeNode {
		if n.redis, err = RedisClient(n.cfg, n.log); err != nil {
			return err
		}
	}
	waiting := func() int {
		if n.blocked.Load() {
			return 0 // what waits can't use a slot
		}
		return max(n.consumer.Waiting()-1, 0) // the line itself asks for one
	}
	n.limiter, err = throttle.New(throttle.Options{
		Redis: n.redis, Namespace: n.cfg.Redis.Namespace, Name: file.Name, Node: Name(n.cfg),
		Limit: file.Stated(), Identity: identity, Waiting: waiting, Logger: n.log, Registerer: n.registry,
	})
	if err != nil {
		return fmt.Errorf("limits.0: %w", err)
	}
	if n.redis != nil {
		var groups []string
		for _, topic := range n.cfg.Kafka.JobTopics() {
			groups = append(groups, n.cfg.Kafka.Group+"."+topic)
		}
		n.fleet = fleet.New(fleet.Options{
			Redis: n.redis, Namespace: n.cfg.Redis.Namespace, Groups: groups, Node: Name(n.cfg),
			Limit: file.Name, Scope: string(cmp.Or(scope, limit.ScopeCluster)), Logger: n.log,
		})
	}
	return nil
}

// makeDedup comes after makeLimiter, whose connection to Redis it shares.
func (n *Node) makeDedup() (err error) {
	l := n.cfg.Dedup
	if !l.Enabled {
		return nil
	}
	n.dedup, err = dedup.New(dedup.Options{
		Redis: n.redis, Namespace: n.cfg.Redis.Namespace, Window: l.Window, Margin: l.Margin,
		CallTimeout: n.cfg.Sender.HTTP.Timeout, TakeOver: n.cfg.Sender.OnUnknown == configs.UnknownRetry,
		Logger: n.log, Registerer: n.registry,
	})
	if err != nil {
		return fmt.Errorf("dedup: %w", err)
	}
	return nil
}

func (n *Node) makeSender() error {
	o, err := senderOptions(n.cfg, n.log, n.registry)
	if err != nil {
		return err
	}
	o.OnRoundTrip = n.limiter.NoteRoundTrip
	if n.sender, err = sender.NewHTTP(o); err != nil {
		return fmt.Errorf("sender.http: %w", err)
	}
	n.provider = newProvider(n.sender.Address(), n.log, n.registry)
	return nil
}

func (n *Node) makeAdmin() (err error) {
	checks := []admin.Check{
		{Name: "kafka", Check: func(context.Context) (string, error) { s := n.consumer.Status(); return s.Note(), s.Ready() }},
		{Name: "limit", Check: func(context.Context) (string, error) { s := n.limiter.State(); return s.Note(), s.Ready() }},
		{Name: "provider", Check: func(context.Context) (string, error) { return n.provider.standing(), nil }},
	}
	if n.dedup != nil {
		checks = append(checks, admin.Check{Name: "dedup", Check: func(context.Context) (string, error) { return "", n.dedup.Ready() }})
	}
	n.admin, err = admin.New(admin.Options{Listen: n.cfg.Admin.Listen, Gatherer: n.registry, Logger: n.log, Checks: checks})
	return err
}

// Run works until ctx ends, then drains: jobs that wait are given back, calls on
// the wire are awaited, the last offsets are committed and the groups left. It
// returns nil then, and an error when the node can't go on.
func (n *Node) Run(ctx context.Context) error {
	defer n.close()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	// What the drain still needs outlives ctx.
	service, stop := context.WithCancel(context.WithoutCancel(ctx))

	var services, workers sync.WaitGroup
	services.Go(func() { fail(n.limiter.Run(service)) })
	services.Go(func() { fail(n.admin.Run(service)) })
	if n.fleet != nil {
		services.Go(func() { fail(n.fleet.Run(service)) })
	}
	services.Go(func() { n.provider.run(service) })
	if n.dedup != nil {
		services.Go(func() { fail(n.dedup.Run(service)) }) // brings what is left when the workers have ended
	}
	turns := make(chan turn)                                      // unbuffered: a job that waits is in the line or in a worker
	count := n.cfg.Kafka.Workers * max(len(n.cfg.Kafka.Lanes), 1) // as many as the lanes may have in hand
	gate := n.gate()
	l := &line{
		jobs: n.consumer, turns: turns, conns: n.sender, limiter: n.limiter, gate: gate, most: count, keep: n.cfg.Sender.HTTP.IdleTimeout,
		wire: make(chan struct{}, atWire), blocked: &n.blocked, claims: n.dedup != nil,
	}
	crew := n.crew(gate, l.wire)
	dog := &watchdog{
		member: n.consumer, unfit: func() error { return unfit(n.limiter.State(), gate) }, log: n.log,
		after: n.cfg.Kafka.StalledAfter, calls: n.cfg.Sender.HTTP.Timeout + n.cfg.Kafka.CommitInterval + time.Second,
	}
	services.Go(func() { dog.run(service) })
	workers.Go(func() { l.run(ctx) })
	for range count {
		workers.Go(func() { crew.work(turns) })
	}

	err := n.consumer.Run(ctx)
	if err != nil {
		fail(err) // the line may wait for a slot that is long in coming
	}
	workers.Wait()
	stop()
	services.Wait()
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, ctx.Err()) {
		err = cause
	}
	return err
}

func (n *Node) gate() *gate {
	b := n.cfg.Sender.Breaker
	return newGate(b.Failures, b.Probe, func(open bool) {
		n.provider.broken(open, b.Failures, b.Probe)
		if !open {
			n.consumer.Wake()
		}
	})
}

func (n *Node) crew(g *gate, wire <-chan struct{}) *crew {
	s := n.cfg.Sender
	return &crew{
		caller: n.sender, limiter: n.limiter, results: n.consumer.Results(), gate: g, provider: n.provider,
		policy: policy{onUnknown: OnUnknown(s.OnUnknown)}, metrics: newMetrics(n.registry), wire: wire,
		dedup: n.dedup, grace: n.cfg.Kafka.Drain / 2,
		crowded: n.consumer.SleepersFull, attempts: s.Retry.Attempts, backoff: s.Retry.Backoff, backoffMost: s.Retry.MaxBackoff,
	}
}

// Gatherer gives the node's metrics.
func (n *Node) Gatherer() prometheus.Gatherer { return n.registry }

// Limit is what the limiter is about right now.
func (n *Node) Limit() throttle.State { return n.limiter.State() }

// Consumer is what the consumer is about right now.
func (n *Node) Consumer() consumer.Status { return n.consumer.Status() }

func (n *Node) close() {
	if n.sender != nil {
		n.sender.Close()
	}
	if n.redis != nil {
		if err := n.redis.Close(); err != nil {
			n.log.Warn("closing the connection to redis", "error", err)
		}
	}
}
