package demo

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"dispatcher/consumer"
	"dispatcher/internal/embedded"
	"dispatcher/internal/fault"
	"dispatcher/internal/provider"
	"dispatcher/job"
	"dispatcher/throttle/limit"
)

// Options of a run.
type Options struct {
	Nodes  int
	Cap    int64
	Window time.Duration
	Jobs   int
	Logger *slog.Logger // nil: none
}

// Validate names each option that is out of its range.
func (o Options) Validate() error {
	var l fault.List
	l.Within("nodes", o.Nodes, 1, 50)
	l.Within("jobs", o.Jobs, 1, 10_000_000)
	c := limit.Contract{
		Cap: o.Cap, Window: o.Window, Burst: limit.DefaultBurst,
		Guard: limit.DefaultGuard, Lateness: limit.DefaultLateness, Horizon: limit.DefaultHorizon,
	}
	l.Under("", c.Validate())
	return l.Err()
}

// Snapshot is the progress of a run.
type Snapshot struct {
	Elapsed   time.Duration
	Jobs      int64 // in the topic
	Settled   int64
	Sent      int
	Rate      int   // calls that arrived in the last window
	Cap       int64 // in force
	Window    time.Duration
	Paused    bool
	Nodes     int // that have partitions
	Brokers   string
	RedisAddr string
}

// Run runs the demo. It calls show with a snapshot ten times a second, and
// returns the summary once all jobs are settled, or an error when the context
// ends before or a part fails.
func Run(ctx context.Context, o Options, show func(Snapshot)) (Summary, error) {
	if err := o.Validate(); err != nil {
		return Summary{}, err
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	parts, err := embedded.New(embedded.Options{Provider: provider.Options{
		Behaviour: provider.Behaviour{Latency: 20 * time.Millisecond, Jitter: 20 * time.Millisecond},
	}})
	if err != nil {
		return Summary{}, err
	}
	if err := parts.Provider.Up(ctx); err != nil {
		return Summary{}, err
	}
	partsDone := run(ctx, fail, parts.Run)
	defer func() { fail(nil); <-partsDone }()
	if err := fill(ctx, parts, o.Jobs); err != nil {
		return Summary{}, err
	}
	return o.play(ctx, fail, parts, show)
}

// workersAll is how many workers the nodes have together: they share one process. Each
// has at least 64.
const workersAll = 768

func (o Options) settings() []string {
	return []string{
		fmt.Sprintf("limits.0.cap=%d", o.Cap), fmt.Sprintf("limits.0.window=%s", o.Window),
		fmt.Sprintf("kafka.workers=%d", max(64, workersAll/o.Nodes)),
	}
}

// play runs the fleet until the backlog is gone.
func (o Options) play(ctx context.Context, fail context.CancelCauseFunc, parts *embedded.Parts, show func(Snapshot)) (Summary, error) {
	fleet, err := embedded.NewFleet(parts, o.Nodes, o.Logger, o.settings()...)
	if err != nil {
		return Summary{}, err
	}
	fctx, stop := context.WithCancel(ctx)
	defer stop()
	fleetDone := run(fctx, fail, fleet.Run)
	m := &monitor{options: o, parts: parts, fleet: fleet, start: time.Now(), show: show}
	m.watch(ctx)
	stop() // the drain and the last commit belong to the run
	<-fleetDone
	if err := context.Cause(ctx); err != nil {
		return Summary{}, err
	}
	return m.summary(), nil
}

// run starts f and returns a channel that closes when it has ended.
func run(ctx context.Context, fail context.CancelCauseFunc, f func(context.Context) error) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f(ctx); err != nil {
			fail(err)
		}
	}()
	return done
}

// fill writes the jobs, each with a key of its own.
func fill(ctx context.Context, parts *embedded.Parts, n int) error {
	producer, err := consumer.NewProducer(consumer.ProducerOptions{Connection: consumer.Connection{Brokers: parts.Brokers()}})
	if err != nil {
		return err
	}
	defer func() { _ = producer.Close() }()
	const batch = 5000
	for from := 0; from < n; from += batch {
		records := make([]job.Record, min(batch, n-from))
		for i := range records {
			id := from + i + 1
			records[i] = job.Record{Key: fmt.Appendf(nil, "customer-%d", id), Value: fmt.Appendf(nil, `{"id":"demo-%d","to":"+000000000","text":"hello"}`, id)}
		}
		if err := producer.WriteBatch(ctx, "jobs", records); err != nil {
			return fmt.Errorf("write jobs: %w", err)
		}
	}
	return nil
}
