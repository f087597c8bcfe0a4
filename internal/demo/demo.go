package demo

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"dispatcher/internal/embedded"
	"dispatcher/internal/fault"
	"dispatcher/internal/provider"
	"dispatcher/throttle/limit"
)

// Options of a run.
type Options struct {
	Nodes  int
	Cap    int64
	Window time.Duration
	Jobs   int
	Logger *slog.Logger // nil: none

	Scenario string   // [Plain] or [SMS]; default Plain
	Settings []string // of the nodes, as --set takes them; they win over all others
}

// scenario is the one that was chosen.
func (o Options) scenario() scenario { return scenarios[cmp.Or(o.Scenario, Plain)] }

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
	_, known := scenarios[cmp.Or(o.Scenario, Plain)]
	l.Refuse(!known, "scenario", o.Scenario, "must be %s", scenarioNames())
	l.Refuse(o.Scenario == SMS && o.Cap < leastSMS, "cap", o.Cap, "must be at least %d with the scenario %s", leastSMS, SMS)
	return l.Err()
}

// Snapshot is the progress of a run.
type Snapshot struct {
	Elapsed   time.Duration
	Jobs      int64 // in the topic
	Settled   int64
	Sent      int
	Rate      int   // units that arrived in the last window
	Cap       int64 // in force
	Window    time.Duration
	Paused    bool
	Nodes     int                // that have partitions
	First     string             // name of the limit that has the cap
	Note      string             // what holds it up; empty: nothing
	Lanes     map[string]float64 // jobs that wait in each lane; empty: jobs have none
	Waiting   map[string]float64 // jobs that wait for each limit after the first
	Binds     map[string]float64 // share of the last half minute in which jobs waited for each limit
	Brokers   string
	RedisAddr string
	PageAddr  string // of the operators' page, on one of the nodes
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
	file, remove, err := o.configuration()
	if err != nil {
		return Summary{}, err
	}
	defer remove()
	parts, err := embedded.New(embedded.Options{MoreTopics: o.scenario().topics, Provider: provider.Options{Behaviour: usual()}, File: file})
	if err != nil {
		return Summary{}, err
	}
	if err := parts.Provider.Up(ctx); err != nil {
		return Summary{}, err
	}
	partsDone := run(ctx, fail, parts.Run)
	defer func() { fail(nil); <-partsDone }()
	w, err := newWriter(parts)
	if err != nil {
		return Summary{}, err
	}
	defer func() { _ = w.Close() }()
	if err := o.scenario().fill(ctx, w, o); err != nil {
		return Summary{}, err
	}
	return o.play(ctx, fail, &running{options: o, parts: parts, writer: w}, show)
}

// configuration writes the file of a scenario that has one. It is to be removed.
func (o Options) configuration() (path string, remove func(), err error) {
	s := o.scenario()
	if s.file == nil {
		return "", func() {}, nil
	}
	dir, err := os.MkdirTemp("", "dispatcher-demo")
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(dir, "dispatcher.yaml")
	return path, func() { _ = os.RemoveAll(dir) }, os.WriteFile(path, []byte(s.file(o)), 0o600)
}

// workersAll is how many workers the nodes have together: they share one process. Each
// has at least 64.
const workersAll = 768

func (o Options) settings() []string {
	workers := fmt.Sprintf("kafka.workers=%d", max(64, workersAll/o.Nodes))
	return slices.Concat(o.scenario().settings(o), []string{workers, "admin.listen=127.0.0.1:0"}, o.Settings)
}

// play runs the fleet until the backlog is gone.
func (o Options) play(ctx context.Context, fail context.CancelCauseFunc, r *running, show func(Snapshot)) (Summary, error) {
	fleet, err := embedded.NewFleet(r.parts, o.Nodes, o.Logger, o.settings()...)
	if err != nil {
		return Summary{}, err
	}
	fctx, stop := context.WithCancel(ctx)
	defer stop()
	fleetDone := run(fctx, fail, fleet.Run)
	during := run(ctx, fail, func(ctx context.Context) error {
		if happens := o.scenario().during; happens != nil {
			return happens(ctx, r)
		}
		return nil
	})
	m := &monitor{running: r, fleet: fleet, start: time.Now(), show: show}
	m.watch(ctx, during)
	stop() // the drain and the last commit belong to the run
	<-fleetDone
	<-during
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
