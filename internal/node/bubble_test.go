package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"

	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/internal/dedup"
	"dispatcher/internal/node/breaker"
	"dispatcher/internal/node/gates"
	"dispatcher/internal/node/pacer"
	"dispatcher/internal/node/report"
	"dispatcher/internal/node/worker"
	"dispatcher/job"
	"dispatcher/sender"
	"dispatcher/throttle"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/throttletest"
)

// bubble is a node in a synctest bubble: a real consumer on a fake Kafka, a real
// limiter with a limit of its own, a breaker and workers.
type bubble struct {
	*testing.T
	setup
	network  *kfake.VirtualNetwork
	kafka    *kfake.Cluster
	consumer *consumer.Consumer
	limiter  *throttle.Limiter
	putBack  atomic.Int64 // jobs that got no slot
	places   pacer.Places
	breaker  *breaker.Breaker
	handler  *worker.Handler
	caller   anyCaller            // of the handler
	registry *prometheus.Registry // of the handler
	work     sync.WaitGroup
	ctx      context.Context //nolint:containedctx // of the node that runs now
	stop     func()          // drains the node

	mu    sync.Mutex
	calls map[string][]time.Time // when each call of a job was written

	redis        *simulatedRedis // nil: the limit is the node's own, and there is no dedup store
	gates        *gates.Gates
	sleepersFull bool                 // whatever the consumer says
	metrics      *prometheus.Registry // of the limiter and the gates
}

// anyCaller makes the calls that the test says.
type anyCaller struct{ worker.Caller }

// setup is how a node is set up.
type setup struct {
	rate                int64 // default 1000 a second
	maxCost             int
	horizon             time.Duration // default 200 ms
	workers, attempts   int
	backoff, maxBackoff time.Duration
	failures            int // of the breaker, which probes each second
	order               consumer.Order
	retryTopics         []time.Duration
	partitions          int32           // default 1
	limits              []configs.Limit // with these the fleet keeps them in Redis, and there is no rate
	maxValues           int
	trip                time.Duration // to Redis and back; default 1 ms
	claims              bool          // of the dedup store
	jobTimeout          time.Duration // default none
	slotTime            time.Duration // default none

	// answer is the result of a job's nth call, from 1. It is called one at a time.
	// nil: the test makes the calls.
	answer func(id string, nth int) sender.Result
}

const latency = 20 * time.Millisecond // of an answer

// inBubble runs a node until the test has ended.
func inBubble(t *testing.T, s setup, test func(b *bubble)) {
	t.Helper()
	var mini *miniredis.Miniredis
	if len(s.limits) > 0 || s.claims {
		mini = miniredis.RunT(t) // its goroutines wait for the network, so they stay outside
	}
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{T: t, network: &kfake.VirtualNetwork{}, setup: s, calls: map[string][]time.Time{}}
		var err error
		b.kafka, err = kfake.NewCluster(kfake.ListenFn(b.network.Listen), kfake.Ports(9092), kfake.NumBrokers(1), kfake.SeedTopics(max(s.partitions, 1), "jobs"))
		b.must(err)
		defer b.kafka.Close()
		if mini != nil {
			b.redis = newSimulatedRedis(mini, cmp.Or(s.trip, time.Millisecond))
			defer func() { b.must(b.redis.Close()) }()
		}
		b.start()
		defer func() { b.stop() }()
		test(b)
	})
}

// atRate is inBubble for a test that makes the calls itself.
func atRate(t *testing.T, rate int64, test func(b *bubble)) {
	t.Helper()
	inBubble(t, setup{rate: rate, failures: 20, attempts: 3, backoff: 100 * time.Millisecond, maxBackoff: time.Second, order: consumer.OrderNone}, test)
}

// restart stops the node as SIGTERM does, and starts another one.
func (b *bubble) restart() {
	b.stop()
	b.start()
}

func (b *bubble) start() {
	var err error
	b.consumer, err = consumer.New(consumer.Options{
		Connection: b.connection(), Group: "g", Topics: []string{"jobs"}, CreateTopics: true, Workers: b.workers, Order: b.order, RetryTopics: b.retryTopics, JobTimeout: b.jobTimeout, SlotTime: b.slotTime,
	})
	b.must(err)
	b.makeLimiter()
	b.breaker = breaker.New(b.failures, time.Second, func(open bool) {
		if !open {
			b.consumer.Wake()
		}
	})
	b.places, b.registry = pacer.NewPlaces(), prometheus.NewRegistry()
	store := b.dedupStore(b.registry)
	b.handler = worker.New(worker.Options{
		Sender: &b.caller, Limiter: b.limiter, Breaker: b.breaker, Provider: report.New("provider.test:80", slog.New(slog.DiscardHandler), nil), Places: b.places,
		Policy:      worker.Policy{OnUnknown: configs.UnknownRetry, Attempts: b.attempts, Backoff: b.backoff, MaxBackoff: b.maxBackoff},
		ThrottledAs: throttledAs(configs.Config{Limits: b.limits}), Dedup: store, Drain: 7 * time.Second, Registerer: b.registry,
		SleepersFull: func() bool { return b.sleepersFull || b.consumer.SleepersFull() },
	})
	ctx, cancel := context.WithCancel(context.Background())
	service, end := context.WithCancel(context.Background())
	b.ctx = ctx
	var services sync.WaitGroup
	services.Go(func() { _ = b.limiter.Run(service) })
	if store != nil {
		services.Go(func() { _ = store.Run(service) })
	}
	b.work.Go(func() {
		if err := b.consumer.Run(ctx); err != nil {
			b.Errorf("consumer: %v", err)
		}
	})
	if b.answer != nil {
		b.dispatch(b, alwaysReady{}, b.workers)
	}
	b.stop = func() {
		cancel()
		b.work.Wait()
		end()
		services.Wait()
	}
}

// dedupStore is nil where the setup has none.
func (b *bubble) dedupStore(r *prometheus.Registry) *dedup.Store {
	b.Helper()
	if !b.claims {
		return nil
	}
	store, err := dedup.New(dedup.Options{Redis: b.redis, Namespace: "ns", CallTimeout: time.Second, TakeOver: true, Registerer: r})
	b.must(err)
	return store
}

func (b *bubble) makeLimiter() {
	if len(b.limits) > 0 {
		b.makeFleetLimiter()
		return
	}
	c := limit.Contract{Cap: max(b.rate, 1), Window: time.Second, Burst: 1, MaxCost: int64(b.maxCost), Guard: 10 * time.Millisecond, Lateness: 3 * time.Millisecond, Horizon: cmp.Or(b.horizon, 200*time.Millisecond)}
	if b.rate == 0 {
		c.Cap = 1000
	}
	var err error
	b.limiter, err = throttle.New(throttle.Options{Namespace: "ns", Name: "provider", Node: "n", Limit: limit.Spec{Terms: limit.Terms{Contract: c}, Scope: limit.ScopeNode}})
	b.must(err)
}

// jobs are the consumer, seen by a test that counts what the pacer does.
func (b *bubble) jobs() pacer.Jobs { return &countedJobs{Consumer: b.consumer, putBack: &b.putBack} }

type countedJobs struct {
	*consumer.Consumer
	putBack *atomic.Int64
}

func (c *countedJobs) PutBack(jobs []*consumer.Delivery) {
	c.putBack.Add(int64(len(jobs)))
	c.Consumer.PutBack(jobs)
}

// dispatch has a pacer and workers make the calls.
func (b *bubble) dispatch(c worker.Caller, conns pacer.Connections, workers int) {
	ctx := b.ctx
	b.caller.Caller = c
	p := pacer.New(pacer.Options{
		Jobs: b.jobs(), Places: b.places, Connections: conns, Limiter: b.limiter, Breaker: b.breaker, Gates: b.gates,
		Workers: workers, IdleTimeout: time.Minute, SlotTime: b.slotTime,
	})
	b.work.Go(func() { p.Run(ctx) })
	for range workers {
		b.work.Go(func() { b.handler.Work(p.Items()) })
	}
}

// alwaysReady always has a connection.
type alwaysReady struct{}

func (alwaysReady) Prepare(sender.Demand) bool                 { return true }
func (alwaysReady) Await(context.Context, sender.Demand) error { return nil }
func (alwaysReady) Take() sender.Conn                          { return sender.Unreached(errors.New("nothing is connected")) }

func (b *bubble) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bubble) connection() consumer.Connection {
	return consumer.Connection{Brokers: []string{"localhost:9092"}, Dial: b.network.DialContext}
}

// SendOn makes a call, and returns the setup's answer.
func (b *bubble) SendOn(ctx context.Context, _ *sender.Conn, j job.Job, permit sender.Permit) sender.Result {
	if _, err := permit(ctx); err != nil {
		return sender.Result{Kind: sender.NotSent, Err: err}
	}
	wrote := time.Now()
	b.mu.Lock()
	b.calls[j.ID] = append(b.calls[j.ID], wrote)
	nth := len(b.calls[j.ID])
	b.mu.Unlock()
	time.Sleep(latency)
	b.mu.Lock()
	defer b.mu.Unlock()
	result := b.answer(j.ID, nth)
	result.WroteAt = wrote
	return result
}

// callerFunc makes calls.
type callerFunc func(ctx context.Context, permit sender.Permit) sender.Result

func (f callerFunc) SendOn(ctx context.Context, on *sender.Conn, _ job.Job, permit sender.Permit) sender.Result {
	on.Release()
	return f(ctx, permit)
}

// write puts records into the topic.
func (b *bubble) write(records ...job.Record) {
	b.Helper()
	p, err := consumer.NewProducer(consumer.ProducerOptions{Connection: b.connection()})
	b.must(err)
	defer func() { b.must(p.Close()) }()
	b.must(p.WriteBatch(b.Context(), "jobs", records))
}

// writeMany writes so many jobs without a key.
func (b *bubble) writeMany(count int) {
	b.Helper()
	var all []job.Record
	for i := range count {
		all = append(all, job.Record{Value: []byte(`{"id":"` + strconv.Itoa(i) + `"}`)})
	}
	b.write(all...)
}

// produce writes jobs, each with a key of its own.
func (b *bubble) produce(ids ...string) {
	b.Helper()
	var records []job.Record
	for _, id := range ids {
		records = append(records, job.Record{Key: []byte(id), Value: []byte(id), Headers: []job.Header{{Key: job.HeaderIdempotencyKey, Value: []byte(id)}}})
	}
	b.write(records...)
}

// take returns the next job, as the pacer would.
func (b *bubble) take() *consumer.Delivery {
	b.Helper()
	b.until(time.Minute, "a job is ready", func() bool { return b.consumer.ReadyJobs() > 0 })
	return b.consumer.Take()
}

// slot returns the next slot.
func (b *bubble) slot() throttle.Slot {
	b.Helper()
	s, err := throttletest.NextSlot(b.Context(), b.limiter)
	b.must(err)
	return s
}

// handle has a worker handle a job with a slot.
func (b *bubble) handle(c worker.Caller, d *consumer.Delivery, s throttle.Slot) {
	b.caller.Caller = c
	b.places <- struct{}{}
	items := make(chan pacer.Item, 1)
	items <- pacer.Item{Delivery: d, Slot: s, Began: time.Now()}
	close(items)
	b.handler.Work(items)
	if len(b.places) != 0 {
		b.Errorf("got %d places that are still taken, want none", len(b.places))
	}
}

// called is when a job was called.
func (b *bubble) called(id string) []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls[id])
}

// dead is how many jobs were dead-lettered.
func (b *bubble) dead() int64 { return b.records("jobs.dlq") }

func (b *bubble) records(topic string) (n int64) {
	for _, p := range b.kafka.PartitionInfos(topic) {
		n += p.HighWatermark
	}
	return n
}

// settled is the group's committed offset.
func (b *bubble) settled() (n int64) {
	if g := b.kafka.GroupInfo("g.jobs"); g != nil {
		n = g.Commits["jobs"][0].Offset
	}
	return n
}

// until lets the bubble's time pass until something is true, for so long at most.
func (b *bubble) until(most time.Duration, what string, is func() bool) {
	b.Helper()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		synctest.Wait()
		if is() {
			return
		}
		if time.Since(begun) > most {
			b.Fatalf("%v passed and not yet: %s", most, what)
		}
	}
}

func ids(kind string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(kind, "-", i))
	}
	return all
}

var (
	accepted    = sender.Result{Kind: sender.Accepted, Status: 200}
	unavailable = sender.Result{Kind: sender.Unavailable, Status: 503}
)
