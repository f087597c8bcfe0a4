package tracing

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"dispatcher/internal/clip"
)

// warnEvery is the shortest time between two warnings.
const warnEvery = time.Minute

// exporter sends spans, and says once of each outage that it can't.
type exporter struct {
	sdk.SpanExporter
	log   *slog.Logger
	spans *prometheus.CounterVec // by result
	ended context.Context        //nolint:containedctx // ends what is being sent when the tracer is closed
	end   context.CancelFunc

	mu     sync.Mutex
	logged bool      // the log says that spans can't be sent
	warned time.Time // when it last said so
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

// note logs the first failure of an outage, a minute after the last such line at the earliest, and that spans are sent again.
func (e *exporter) note(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	e.mu.Lock()
	fails := err != nil && !e.logged && time.Since(e.warned) >= warnEvery
	again := err == nil && e.logged
	if fails {
		e.warned = time.Now()
	}
	if fails || again {
		e.logged = fails
	}
	e.mu.Unlock()
	switch {
	case fails:
		const most = 500 // bytes; the receiver's own words may be in it
		e.log.Warn("spans can't be sent, and are dropped", "error", clip.Shown(err.Error(), most))
	case again:
		e.log.Info("spans are sent again")
	}
}
