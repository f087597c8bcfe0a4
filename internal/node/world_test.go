package node

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
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

const broker = "localhost:9092"

// world is what a job goes through on one node, in a bubble: a real consumer on a
// fake Kafka, a real limiter without Redis, and the crew.
type world struct {
	*testing.T
	kafka    *kfake.Cluster
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	consumer *consumer.Consumer
	limiter  *throttle.Limiter
	blocked  atomic.Bool
	wire     chan struct{}
	crew     *crew
}

// inWorld runs a test in a world whose limit is rate calls a second.
func inWorld(t *testing.T, rate int64, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		kafka, err := kfake.NewCluster(kfake.ListenFn(network.Listen), kfake.Ports(9092), kfake.NumBrokers(1), kfake.SeedTopics(1, "jobs"))
		if err != nil {
			t.Fatal(err)
		}
		defer kafka.Close()
		w := &world{T: t, kafka: kafka, dial: network.DialContext, wire: make(chan struct{}, atWire)}
		c := limit.Contract{Cap: rate, Window: time.Second, Burst: 1, Guard: 10 * time.Millisecond, Lateness: 3 * time.Millisecond, Horizon: 200 * time.Millisecond}
		w.limiter, err = throttle.New(throttle.Options{Namespace: "ns", Name: "provider", Node: "n", Limit: limit.Spec{Terms: limit.Terms{Contract: c}, Scope: limit.ScopeNode}, Waiting: w.waiting})
		w.must(err)
		w.consumer, err = consumer.New(consumer.Options{
			Connection: consumer.Connection{Brokers: []string{broker}, Dial: network.DialContext},
			Group:      "g", Topics: []string{"jobs"}, CreateTopics: true, Order: consumer.OrderNone,
		})
		w.must(err)
		w.crew = &crew{
			limiter: w.limiter, results: w.consumer.Results(), gate: newGate(20, time.Second, waking(w.consumer)), provider: newProvider("provider.test:80", slog.New(slog.DiscardHandler), nil),
			policy: policy{onUnknown: UnknownRetry}, metrics: newMetrics(nil), wire: w.wire, grace: time.Second, crowded: w.consumer.SleepersFull,
			attempts: 3, backoff: 100 * time.Millisecond, backoffMost: time.Second,
		}
		ctx, stop := context.WithCancel(context.Background())
		var services sync.WaitGroup
		services.Go(func() { _ = w.limiter.Run(ctx) })
		services.Go(func() {
			if err := w.consumer.Run(ctx); err != nil {
				t.Errorf("consumer: %v", err)
			}
		})
		defer services.Wait()
		defer stop()
		test(w)
	})
}

func (w *world) waiting() int {
	if w.blocked.Load() {
		return 0
	}
	return max(w.consumer.Waiting()-1, 0)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// write puts jobs into the topic.
func (w *world) write(records ...job.Record) {
	w.Helper()
	p, err := consumer.NewProducer(consumer.ProducerOptions{Connection: consumer.Connection{Brokers: []string{broker}, Dial: w.dial}})
	w.must(err)
	defer func() { w.must(p.Close()) }()
	w.must(p.WriteBatch(w.Context(), "jobs", records))
}

// writeMany puts count jobs into the topic.
func (w *world) writeMany(count int) {
	w.Helper()
	var all []job.Record
	for i := range count {
		all = append(all, job.Record{Value: []byte(`{"id":"` + strconv.Itoa(i) + `"}`)})
	}
	w.write(all...)
}

// until lets time pass until something is true.
func (w *world) until(what string, is func() bool) {
	w.Helper()
	for range 60_000 {
		synctest.Wait()
		if is() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	w.Fatalf("a minute passed and not yet: %s", what)
}

// take returns the next job, as the line would.
func (w *world) take() *consumer.Delivery {
	w.Helper()
	w.until("a job is ready", func() bool { return w.consumer.Waiting() > 0 })
	return w.consumer.Take()
}

// slot returns the next slot.
func (w *world) slot() throttle.Slot {
	w.Helper()
	s, err := w.limiter.Next(w.Context())
	w.must(err)
	return s
}

// handle has the crew see to a job that was handed out with a slot.
func (w *world) handle(c caller, d *consumer.Delivery, s throttle.Slot) {
	w.crew.caller = c
	w.wire <- struct{}{}
	w.crew.handle(turn{d: d, slot: s, since: time.Now()})
	if len(w.wire) != 0 {
		w.Errorf("got %d places at the wire that are still taken, want none", len(w.wire))
	}
}

// dead is how many jobs were dead-lettered.
func (w *world) dead() (n int64) {
	for _, info := range w.kafka.PartitionInfos("jobs.dlq") {
		n += info.HighWatermark
	}
	return n
}

// settled is the group's committed offset.
func (w *world) settled() int64 {
	if g := w.kafka.GroupInfo("g.jobs"); g != nil {
		return g.Commits["jobs"][0].Offset
	}
	return 0
}

// run has a line and workers call through the sender until count jobs are settled.
func (w *world) run(h *sender.HTTP, workers, count int) {
	w.Helper()
	w.crew.caller = h
	turns := make(chan turn)
	l := &line{
		jobs: w.consumer, turns: turns, conns: h, limiter: w.limiter, gate: w.crew.gate, most: workers, keep: time.Minute,
		wire: w.wire, blocked: &w.blocked,
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop() // the line and the workers end with the consumer
	go l.run(ctx)
	for range workers {
		go w.crew.work(turns)
	}
	w.until("all jobs are settled", func() bool { return w.settled() == int64(count) })
}

// callerFunc makes calls.
type callerFunc func(ctx context.Context, permit sender.Permit) sender.Result

func (f callerFunc) SendOn(ctx context.Context, on *sender.Conn, _ job.Job, permit sender.Permit) sender.Result {
	on.Release()
	return f(ctx, permit)
}

// faraway is a provider's network without sockets.
type faraway struct {
	dial    time.Duration // that a new connection takes at least
	jitter  time.Duration // up to so much more
	latency time.Duration // of an answer
	once    bool          // a connection carries one call
	down    atomic.Bool   // no connection can be opened

	mu      sync.Mutex
	dials   int
	dialing int
	most    int // dials at once
	calls   []time.Time
}

func (f *faraway) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	f.count(1)
	defer f.count(-1)
	timer := time.NewTimer(f.dial + rand.N(f.jitter+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-timer.C:
	}
	if f.down.Load() {
		return nil, &net.OpError{Op: "dial", Err: io.ErrUnexpectedEOF}
	}
	near, far := net.Pipe()
	go f.serve(far)
	return near, nil
}

func (f *faraway) count(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dialing += n
	f.dials += max(n, 0)
	f.most = max(f.most, f.dialing)
}

func (f *faraway) dialed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dials
}

func (f *faraway) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	br := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		f.mu.Lock()
		f.calls = append(f.calls, time.Now())
		f.mu.Unlock()
		_, _ = io.Copy(io.Discard, req.Body)
		time.Sleep(f.latency)
		answer := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
		if f.once {
			answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
		}
		if _, err := io.WriteString(c, answer); err != nil || f.once {
			return
		}
	}
}

// share is how much of a rate was used, from the call at the place first on.
func (f *faraway) share(rate, first int) float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls[first:]
	return float64(len(calls)-1) / calls[len(calls)-1].Sub(calls[0]).Seconds() / float64(rate)
}
