package tracing

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// warnEvery is the shortest time between two warnings.
const warnEvery = time.Minute

// exporter sends spans, and says once that it can't.
type exporter struct {
	sdk.SpanExporter
	log   *slog.Logger
	spans *prometheus.CounterVec // by result
	ended context.Context        //nolint:containedctx // ends what is being sent when the tracer is closed
	end   context.CancelFunc

	mu     sync.Mutex
	fails  bool
	warned time.Time
}

func newExporter(client sdk.SpanExporter, log *slog.Logger, reg prometheus.Registerer) *exporter {
	e := &exporter{SpanExporter: client, log: log, spans: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dispatcher_tracing_spans_total",
		Help: "Spans by what became of them: made, sent or failed. The others wait, or were dropped.",
	}, []string{"result"})}
	e.ended, e.end = context.WithCancel(context.Background())
	for _, result := range []string{"made", "sent", "failed"} {
		e.spans.WithLabelValues(result)
	}
	if reg != nil {
		reg.MustRegister(e.spans)
	}
	return e
}

// ExportSpans sends spans. It reports no error to the SDK, which would write it past the logger.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ended, cancel)()
	err := e.SpanExporter.ExportSpans(ctx, spans)
	result := "sent"
	if err != nil {
		result = "failed"
	}
	e.spans.WithLabelValues(result).Add(float64(len(spans)))
	e.note(err)
	return nil
}

// note logs the first failure, and that spans are sent again.
func (e *exporter) note(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	e.mu.Lock()
	before, loud := e.fails, time.Since(e.warned) >= warnEvery
	e.fails = err != nil
	if e.fails && !before && loud {
		e.warned = time.Now()
	}
	e.mu.Unlock()
	switch {
	case err != nil && !before && loud:
		e.log.Warn("spans can't be sent, and are dropped", "error", err)
	case err == nil && before:
		e.log.Info("spans are sent again")
	}
}
