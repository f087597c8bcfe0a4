package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"

	"dispatcher/admin"
	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/consumer/dlq"
	"dispatcher/internal/api"
	"dispatcher/internal/dedup"
	"dispatcher/internal/figures"
	"dispatcher/internal/fleet"
	"dispatcher/internal/limits"
	"dispatcher/internal/loglevel"
	"dispatcher/internal/node/breaker"
	"dispatcher/internal/node/gates"
	"dispatcher/internal/node/health"
	"dispatcher/internal/node/pacer"
	"dispatcher/internal/node/report"
	"dispatcher/internal/node/worker"
	"dispatcher/internal/page"
	"dispatcher/internal/redrive"
	"dispatcher/internal/rules"
	"dispatcher/internal/tracing"
	"dispatcher/internal/why"
	"dispatcher/sender"
	"dispatcher/throttle"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/phase"
)

// Node is one process of the fleet. Make it with [New]; it can be run once.
type Node struct {
	cfg      configs.Config
	log      *slog.Logger
	level    *loglevel.Level // of log; nil: it can't be changed
	registry *registries
	redis    redis.UniversalClient
	consumer *consumer.Consumer
	limiter  *throttle.Limiter
	gates    *gates.Gates
	fleet    *fleet.Membership // nil: each node keeps a limit of its own
	why      *why.Service      // nil likewise
	dedup    *dedup.Store      // nil: there is none
	sender   *sender.Sender
	tracer   *tracing.Tracer // nil: tracing is off
	provider *report.Provider
	checks   []admin.Check
	figures  *figures.Publisher // nil: each node keeps a limit of its own
	rules    *rules.Watcher     // nil likewise
	redrives *redrive.Service   // nil likewise
	admin    *admin.Server
	started  time.Time

	checkSetup bool // Redis can tell of itself, as the embedded one can't
}

// Option changes what [New] makes.
type Option func(*Node)

// WithLevel lets operators change the level of the node's log while it runs.
func WithLevel(level *loglevel.Level) Option { return func(n *Node) { n.level = level } }

// New puts a node together from a valid configuration. It listens for the admin
// server, and connects to nothing yet. The identity says how the limiter recognises
// Redis's master; the zero value suits a real Redis.
func New(cfg configs.Config, log *slog.Logger, identity throttle.Identity, options ...Option) (*Node, error) {
	n := &Node{cfg: cfg, log: log, registry: newRegistries(), started: time.Now(), checkSetup: identity == throttle.IdentityInfo}
	for _, option := range options {
		option(n)
	}
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

// Check makes all of a node but its admin server, whose files it reads, and closes it
// again. A configuration that Check accepts, [New] accepts too, as long as the admin
// address is free, and loopback where nothing says who may call. Check connects to nothing.
func Check(cfg configs.Config) error {
	n := &Node{cfg: cfg, log: slog.New(slog.DiscardHandler), registry: newRegistries()}
	defer n.close()
	return errors.Join(n.make(throttle.IdentityInfo), cfg.Admin.CheckFiles())
}

func (n *Node) make(identity throttle.Identity) error {
	return errors.Join(n.makeConsumer(), n.makeLimiter(identity), n.makeDedup(), n.makeSender(), n.makeTracer())
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
		if n.redis, err = RedisClient(n.cfg, n.log, 0); err != nil {
			return err
		}
	}
	var beside []throttle.Gate
	var names []string
	for _, g := range n.cfg.Gates() {
		names = append(names, g.Name)
		beside = append(beside, throttle.Gate{Name: g.Name, Limit: g.Spec, Keyed: g.Key != ""})
	}
	n.limiter, err = throttle.New(throttle.Options{
		Redis: n.redis, Namespace: n.cfg.Redis.Namespace, Name: file.Name, Node: Name(n.cfg),
		Limit: file.Stated(), CallTimeout: n.cfg.Sender.HTTP.Timeout, Identity: identity, Logger: n.log, Registerer: n.registry,
		Gates: beside, Waiting: n.consumer.Deferred, MinShares: minShares(n.cfg), Learned: n.setWeights,
	})
	if err != nil {
		return fmt.Errorf("limits.0: %w", err)
	}
	if n.gates, err = gates.New(n.cfg, n.limiter, gateRefusals(n.registry, names, n.consumer.Deferred)); err != nil {
		return err
	}
	if n.redis != nil {
		var groups []string
		for _, topic := range n.cfg.Kafka.JobTopics() {
			groups = append(groups, n.cfg.Kafka.Group+"."+topic)
		}
		names := []string{file.Name}
		for _, g := range beside {
			names = append(names, g.Name)
		}
		n.fleet = fleet.New(fleet.Options{
			Redis: n.redis, Namespace: n.cfg.Redis.Namespace, Groups: groups, Node: Name(n.cfg),
			Limit: file.Name, Scope: string(cmp.Or(scope, limit.ScopeCluster)), Limits: names,
			Logger: n.log, Registerer: n.registry,
		})
		n.why = why.New(why.Options{Redis: n.redis, Namespace: n.cfg.Redis.Namespace, Answer: n.Why, Logger: n.log})
		n.figures = figures.New(figures.Options{
			Redis: n.redis, Namespace: n.cfg.Redis.Namespace, Node: Name(n.cfg), Take: n.takeFigures, Logger: n.log,
			Rules: func(revision int64) { n.rules.Hear(revision) }, // made below
		})
		n.rules = rules.NewWatcher(rules.WatcherOptions{
			Store: rules.NewStore(n.redis, n.cfg.Redis.Namespace), Changed: n.figures.Now, Logger: n.log, Registerer: n.registry,
		})
	}
	return nil
}

// setWeights has the weights of tenants act that are in force.
func (n *Node) setWeights(s limit.Settings) {
	weights, err := s.TenantWeights()
	if err != nil { // another version of dispatcher wrote them
		n.log.Warn("the weights of tenants can't be read, and those from before stay in force", "error", err)
		return
	}
	n.consumer.SetWeights(weights)
}

// makeDedup runs after makeLimiter, whose connection to Redis it shares.
func (n *Node) makeDedup() (err error) {
	if !n.cfg.Dedup.Enabled {
		return nil
	}
	n.dedup, err = dedup.New(dedup.Options{
		Config: n.cfg.Dedup, Redis: n.redis, Namespace: n.cfg.Redis.Namespace,
		CallTimeout: n.cfg.Sender.HTTP.Timeout, TakeOver: n.cfg.Sender.OnUnknown == configs.UnknownRetry,
		Logger: n.log, Registerer: n.registry,
	})
	return err
}

func (n *Node) makeSender() (err error) {
	n.sender, err = sender.New(sender.Options{
		Config: n.cfg.Sender.HTTP, OnRoundTrip: n.limiter.NoteRoundTrip, Logger: n.log, Registerer: n.registry,
	})
	if err != nil {
		return fmt.Errorf("sender.http: %w", err)
	}
	n.provider = report.New(n.sender.Address(), n.log, n.registry)
	return nil
}

func (n *Node) makeTracer() (err error) {
	n.tracer, err = tracing.New(tracing.Options{
		Config: n.cfg.Tracing, Node: Name(n.cfg), Limit: n.cfg.Limits[0].Name, Logger: n.log, Registerer: n.registry,
	})
	return err
}

func (n *Node) makeAdmin() (err error) {
	n.checks = n.healthChecks()
	n.registry.MustRegister(buildInfo(), checks{n.checks})
	o := admin.Options{Config: n.cfg.Admin, Gatherer: n.registry.all, Logger: n.log, Checks: n.checks}
	if n.redis != nil { // else each node has a limit of its own, which nobody changes
		letters, err := n.makeRedrives()
		if err != nil {
			return err
		}
		o.API = api.New(api.Options{
			Reader: limits.NewReader(n.cfg, n.redis), Redrives: n.redrives, DeadLetters: letters,
			Level: n.level, Node: Name(n.cfg), Logger: n.log,
		})
		o.Page = page.Handler()
	}
	n.admin, err = admin.New(o)
	return err
}

// makeRedrives makes what replays and drops dead letters in the background, and a client that lists them.
func (n *Node) makeRedrives() (*dlq.Client, error) {
	conn, err := KafkaConnection(n.cfg, n.log)
	if err != nil {
		return nil, err
	}
	o := dlq.Options{Connection: conn, Group: n.cfg.Kafka.Group, JobTopics: n.cfg.Kafka.JobTopics()}
	n.redrives = redrive.New(redrive.Options{
		Store: redrive.NewStore(n.redis, n.cfg.Redis.Namespace), Runner: redrive.Kafka(o), Node: Name(n.cfg), Logger: n.log,
	})
	return dlq.New(o)
}

// Run works until ctx ends, then drains: it releases waiting jobs, awaits calls in
// flight, commits the last offsets and leaves the groups. It returns nil then, and an
// error when the node can't go on.
func (n *Node) Run(ctx context.Context) error {
	defer n.close()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	// The services outlive ctx, since the drain needs them.
	service, stop := context.WithCancel(context.WithoutCancel(ctx))

	var services, workers sync.WaitGroup
	services.Go(func() { fail(n.limiter.Run(service)) })
	services.Go(func() { fail(n.admin.Run(service)) })
	if n.fleet != nil {
		services.Go(func() { fail(n.fleet.Run(service)) })
		services.Go(func() { fail(n.why.Run(service)) })
		services.Go(func() { fail(n.figures.Run(service)) })
		services.Go(func() { fail(n.rules.Run(service)) })
		services.Go(func() { fail(n.redrives.Run(ctx)) }) // not needed by the drain
	}
	services.Go(func() { n.provider.Run(service) })
	if n.checkSetup {
		services.Go(func() { n.tellSetup(ctx, setupAfter+rand.N(setupSpread)) })
	}
	if n.dedup != nil {
		services.Go(func() { fail(n.dedup.Run(service)) }) // writes the last records after the workers have ended
	}
	count := n.cfg.Kafka.Workers * max(len(n.cfg.Kafka.Lanes), 1) // as many jobs as the lanes may have in flight
	b, places := n.breaker(), pacer.NewPlaces()
	p, handler := n.pacer(b, places, count), n.workers(b, places)
	services.Go(func() { n.healthCheck(b).Run(service) })
	workers.Go(func() { p.Run(ctx) })
	for range count {
		workers.Go(func() { handler.Work(p.Items()) })
	}

	err := n.consumer.Run(ctx)
	if err != nil {
		fail(err) // the pacer may wait for a slot that is far ahead
	}
	workers.Wait()
	stop()
	services.Wait()
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, ctx.Err()) {
		err = cause
	}
	return err
}

func (n *Node) breaker() *breaker.Breaker {
	b := n.cfg.Sender.Breaker
	return breaker.New(b.Failures, b.Probe, func(open bool) {
		n.provider.BreakerChanged(open, b.Failures, b.Probe)
		if !open {
			n.consumer.Wake()
		}
	})
}

func (n *Node) pacer(b *breaker.Breaker, places pacer.Places, workers int) *pacer.Pacer {
	return pacer.New(pacer.Options{
		Jobs: n.consumer, Places: places, Connections: n.sender, Limiter: n.limiter, Breaker: b, Gates: n.gates, Rules: n.rules,
		Workers: workers, IdleTimeout: n.cfg.Sender.HTTP.IdleTimeout, SlotTime: slotTime(n.cfg), Lanes: len(n.cfg.Kafka.Lanes), Claims: n.dedup != nil,
	})
}

func (n *Node) workers(b *breaker.Breaker, places pacer.Places) *worker.Handler {
	s := n.cfg.Sender
	return worker.New(worker.Options{
		Sender: n.sender, Limiter: n.limiter, Breaker: b, Provider: n.provider, Places: places,
		Policy:      worker.Policy{OnUnknown: s.OnUnknown, Attempts: s.Retry.Attempts, Backoff: s.Retry.Backoff, MaxBackoff: s.Retry.MaxBackoff},
		ThrottledAs: throttledAs(n.cfg), Dedup: n.dedup, Drain: n.cfg.Kafka.Drain, SleepersFull: n.consumer.SleepersFull,
		Tracer: n.tracer, Registerer: n.registry,
	})
}

// throttledAs is the gate that a throttled answer is about, by what the answer says.
func throttledAs(cfg configs.Config) map[string]int {
	gates := make(map[string]int)
	for i, g := range cfg.Gates() {
		if g.ThrottledAs != "" {
			gates[g.ThrottledAs] = i
		}
	}
	return gates
}

func (n *Node) healthCheck(b *breaker.Breaker) *health.Check {
	return &health.Check{
		Member: n.consumer, Cause: func() error { return health.Cause(n.limiter.State(), b.Closed()) }, Log: n.log,
		StalledAfter: n.cfg.Kafka.StalledAfter, LastCalls: n.cfg.Sender.HTTP.Timeout + n.cfg.Kafka.CommitInterval + time.Second,
	}
}

// Gatherer gives the node's metrics.
func (n *Node) Gatherer() prometheus.Gatherer { return n.registry.all }

// AdminAddr is where the admin server listens, as host:port; empty: nowhere.
func (n *Node) AdminAddr() string { return n.admin.Addr() }

// LimitName is the name of the first limit.
func (n *Node) LimitName() string { return n.cfg.Limits[0].Name }

// Limit is the limiter's state now.
func (n *Node) Limit() phase.State { return n.limiter.State() }

// Rules is the revision of the operators' rules that the node knows; 0: it knows none.
func (n *Node) Rules() int64 { return n.rules.Revision() }

// Consumer is the consumer's status now.
func (n *Node) Consumer() consumer.Status { return n.consumer.Status() }

func (n *Node) close() {
	if n.tracer != nil {
		n.tracer.Close() // sends the spans of the last calls
	}
	if n.sender != nil {
		n.sender.Close()
	}
	if n.redis != nil {
		if err := n.redis.Close(); err != nil {
			n.log.Warn("closing the connection to redis", "error", err)
		}
	}
}
