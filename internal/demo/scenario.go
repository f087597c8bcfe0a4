package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"dispatcher/consumer"
	"dispatcher/internal/embedded"
	"dispatcher/internal/provider"
	"dispatcher/internal/wait"
	"dispatcher/job"
)

// The scenarios.
const (
	// Plain is one limit and one topic.
	Plain = "plain"
	// SMS is an account with several limits, texts of several segments, one-time passwords
	// that go first, and a provider that refuses calls for a while.
	SMS = "sms"
)

// scenario is what a run is made of.
type scenario struct {
	topics   []string                 // beside that of [embedded.Topic]
	file     func(o Options) string   // the nodes' configuration; nil: none
	settings func(o Options) []string // that win over it
	judged   func(o Options) []judged // beside the first limit, whose cap is that in force
	fill     func(ctx context.Context, w *writer, o Options) error
	// during makes what happens while the fleet works, from the first call on; nil: nothing.
	during func(ctx context.Context, r *running) error
}

// judged is a limit by whose cap the calls are judged.
type judged struct {
	name     string
	contract provider.Contract
}

var scenarios = map[string]scenario{ //nolint:gochecknoglobals // a constant table
	Plain: {
		settings: func(o Options) []string {
			return []string{fmt.Sprintf("limits.0.cap=%d", o.Cap), fmt.Sprintf("limits.0.window=%s", o.Window)}
		},
		judged: func(Options) []judged { return nil },
		fill:   fillPlain,
	},
	SMS: {topics: []string{codes}, file: fileOfSMS, settings: func(Options) []string { return []string{"kafka.topics="} }, judged: judgedOfSMS, fill: fillSMS, during: duringSMS},
}

func scenarioNames() string { return strings.Join(slices.Sorted(maps.Keys(scenarios)), " or ") }

// fillPlain writes the jobs, each with a key of its own.
func fillPlain(ctx context.Context, w *writer, o Options) error {
	return w.write(ctx, embedded.Topic, o.Jobs, func(n int) job.Record {
		return job.Record{Key: fmt.Appendf(nil, "customer-%d", n+1), Value: fmt.Appendf(nil, `{"id":"demo-%d","to":"+000000000","text":"hello"}`, n+1)}
	})
}

// writer writes jobs.
type writer struct{ *consumer.Producer }

func newWriter(parts *embedded.Parts) (*writer, error) {
	p, err := consumer.NewProducer(consumer.ProducerOptions{Connection: consumer.Connection{Brokers: parts.Brokers()}})
	return &writer{p}, err
}

// write writes n jobs, in batches.
func (w *writer) write(ctx context.Context, topic string, n int, one func(n int) job.Record) error {
	const batch = 5000
	for from := 0; from < n; from += batch {
		records := make([]job.Record, min(batch, n-from))
		for i := range records {
			records[i] = one(from + i)
		}
		if err := w.WriteBatch(ctx, topic, records); err != nil {
			return fmt.Errorf("write jobs: %w", err)
		}
	}
	return nil
}

// running is a run while the fleet works.
type running struct {
	options Options
	parts   *embedded.Parts
	writer  *writer
	written []time.Duration // when each urgent job was written, since the provider's epoch
}

// awaitCalls waits for the first call.
func (r *running) awaitCalls(ctx context.Context) error {
	for r.parts.Provider.Count() == 0 {
		if !wait.For(ctx, snapshotEvery) {
			return context.Cause(ctx)
		}
	}
	return nil
}
