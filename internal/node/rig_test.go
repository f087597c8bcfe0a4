package node

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"dispatcher/consumer"
	"dispatcher/job"
	"dispatcher/sender"
	"dispatcher/throttle"
	"dispatcher/throttle/limit"
)

// rig is a node in a bubble: a consumer on a fake Kafka, a limit of 1000/s that
// it has for itself, and a caller that a test scripts.
type rig struct {
	t        *testing.T
	net      *kfake.VirtualNetwork
	cluster  *kfake.Cluster
	settings rigged
	consumer *consumer.Consumer
	crew     *crew
	gate     *gate
	stop     func()

	// answer says what becomes of a job's nth call, from 1, after some time. It is
	// called one at a time.
	answer func(id string, nth int) sender.Result

	mu    sync.Mutex
	calls map[string][]time.Time // when each call of a job was written
}

// rigged are the settings of a rig.
type rigged struct {
	workers, attempts int
	backoff, most     time.Duration
	failures          int // of the breaker, which probes each second
	order             consumer.Order
	tiers             []time.Duration
	answer            func(id string, nth int) sender.Result
}

const latency = 20 * time.Millisecond

// withRig runs a node until the test has ended.
func withRig(t *testing.T, s rigged, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, net: &kfake.VirtualNetwork{}, settings: s, answer: s.answer, calls: map[string][]time.Time{}}
		var err error
		r.cluster, err = kfake.NewCluster(kfake.ListenFn(r.net.Listen), kfake.Ports(9092), kfake.NumBrokers(1), kfake.SeedTopics(1, "jobs"))
		if err != nil {
			t.Fatal(err)
		}
		defer r.cluster.Close()
		r.begin()
		defer func() { r.stop() }()
		test(r)
	})
}

// restart ends the node as SIGTERM does, and starts another one.
func (r *rig) restart() {
	r.stop()
	r.begin()
}

// begin starts a node.
func (r *rig) begin() {
	s, t := r.settings, r.t
	var err error
	r.consumer, err = consumer.New(consumer.Options{
		Connection: r.connection(), Group: "g", Topics: []string{"jobs"}, CreateTopics: true, MaxInFlight: s.workers, Order: s.order, RetryTopics: s.tiers,
	})
	if err != nil {
		t.Fatal(err)
	}
	c := limit.Contract{Cap: 1000, Window: time.Second, Burst: 1, Guard: 10 * time.Millisecond, Lateness: 3 * time.Millisecond, Horizon: 200 * time.Millisecond}
	lim, err := throttle.New(throttle.Options{Namespace: "ns", Name: "provider", Node: "n", Limit: limit.Spec{Terms: limit.Terms{Contract: c}, Scope: limit.ScopeNode}, Waiting: r.consumer.Waiting})
	if err != nil {
		t.Fatal(err)
	}
	r.gate = newGate(s.failures, time.Second, waking(r.consumer))
	wire := make(chan struct{}, atWire)
	r.crew = &crew{
		caller: r, limiter: lim, results: r.consumer.Results(), gate: r.gate, provider: newProvider("provider.test:80", slog.New(slog.DiscardHandler), nil), policy: policy{onUnknown: UnknownRetry}, metrics: newMetrics(nil), wire: wire,
		crowded: r.consumer.SleepersFull, attempts: s.attempts, backoff: s.backoff, backoffMost: s.most,
	}
	r.stop = r.run(lim, wire, s.workers)
}

// run starts the node's goroutines, and returns what ends them.
func (r *rig) run(lim *throttle.Limiter, wire chan struct{}, workers int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	service, end := context.WithCancel(context.Background())
	var services, work sync.WaitGroup
	services.Go(func() { _ = lim.Run(service) })
	turns := make(chan turn)
	l := &line{jobs: r.consumer, turns: turns, conns: atHand{}, keep: time.Minute, most: workers, limiter: lim, gate: r.gate, wire: wire, blocked: new(atomic.Bool)}
	work.Go(func() { l.run(ctx) })
	for range workers {
		work.Go(func() { r.crew.work(turns) })
	}
	work.Go(func() {
		if err := r.consumer.Run(ctx); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
	return func() {
		cancel()
		work.Wait()
		end()
		services.Wait()
	}
}

// waking wakes jobs when the provider answers again, as a node does.
func waking(c *consumer.Consumer) func(open bool) {
	return func(open bool) {
		if !open {
			c.Wake()
		}
	}
}

func (r *rig) connection() consumer.Connection {
	return consumer.Connection{Brokers: []string{"localhost:9092"}, Dial: r.net.DialContext}
}

// SendOn makes a call as the script says.
func (r *rig) SendOn(ctx context.Context, _ *sender.Conn, j job.Job, permit sender.Permit) sender.Result {
	if _, err := permit(ctx); err != nil {
		return sender.Result{Kind: sender.NotSent, Err: err}
	}
	wrote := time.Now()
	r.mu.Lock()
	r.calls[j.ID] = append(r.calls[j.ID], wrote)
	nth := len(r.calls[j.ID])
	r.mu.Unlock()
	time.Sleep(latency)
	r.mu.Lock()
	defer r.mu.Unlock()
	result := r.answer(j.ID, nth)
	result.WroteAt = wrote
	return result
}

// produce writes jobs, each with a key of its own.
func (r *rig) produce(ids ...string) {
	r.t.Helper()
	p, err := consumer.NewProducer(consumer.ProducerOptions{Connection: r.connection()})
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	var records []job.Record
	for _, id := range ids {
		records = append(records, job.Record{Key: []byte(id), Value: []byte(id), Headers: []job.Header{{Key: job.HeaderIdempotencyKey, Value: []byte(id)}}})
	}
	if err := p.WriteBatch(r.t.Context(), "jobs", records); err != nil {
		r.t.Fatal(err)
	}
}

// called is when a job was called.
func (r *rig) called(id string) []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls[id])
}

// dead is how many jobs are dead-lettered, and settled how many are complete.
func (r *rig) dead() (n int64) { return r.records("jobs.dlq") }

func (r *rig) records(topic string) (n int64) {
	for _, p := range r.cluster.PartitionInfos(topic) {
		n += p.HighWatermark
	}
	return n
}

func (r *rig) settled() (n int64) {
	if g := r.cluster.GroupInfo("g.jobs"); g != nil {
		n = g.Commits["jobs"][0].Offset
	}
	return n
}

// until lets the bubble's time pass until something is true, for so long at most.
func (r *rig) until(most time.Duration, what string, is func() bool) {
	r.t.Helper()
	for begun := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > most {
			r.t.Fatalf("after %v: %s", most, what)
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
