package tracing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"dispatcher/internal/version"
)

const (
	queueSize = 4096 // spans that wait to be sent, at most
	batchSize = 512
	sendEvery = 2 * time.Second
	sendTime  = 10 * time.Second // for one batch, with what is tried again
	flushTime = 2 * time.Second  // for what is left at the end
)

// Options for [New].
type Options struct {
	Config // valid

	Node       string // its name
	Limit      string // the name of the first limit
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
	Flush      time.Duration         // for how long [Tracer.Close] sends what is left; 0: two seconds
}

// Tracer makes the spans of a node. Its methods may be called from any goroutine. [Tracer.Close] ends it.
type Tracer struct {
	provider *sdk.TracerProvider
	spans    trace.Tracer
	ratio    sdk.Sampler
	exporter *exporter
	limit    attribute.KeyValue
	flush    time.Duration
}

// New makes a tracer; nil: tracing is off. It does not connect.
func New(o Options) (*Tracer, error) {
	if o.Endpoint == "" {
		return nil, nil
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("tracing.endpoint: %w", err)
	}
	headers := maps.Clone(o.Headers)
	if headers == nil {
		headers = map[string]string{} // else the environment's
	}
	u.Path = cmp.Or(u.Path, "/v1/traces")
	client, err := otlptracehttp.New(context.Background(),
		otlptracehttp.WithEndpointURL(u.String()), // with the scheme, which is the environment's otherwise
		otlptracehttp.WithHeaders(headers), otlptracehttp.WithCompression(otlptracehttp.GzipCompression), otlptracehttp.WithTimeout(sendTime),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: sendTime / 2, MaxElapsedTime: sendTime}),
	)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { o.Logger.Debug("tracing", "error", err) })) // the default writes past the logger
	t := &Tracer{
		exporter: newExporter(client, o.Logger, o.Registerer), ratio: sdk.TraceIDRatioBased(o.SampleRatio),
		limit: attribute.String("dispatcher.limit", o.Limit), flush: cmp.Or(o.Flush, flushTime),
	}
	t.provider = sdk.NewTracerProvider(
		sdk.WithSampler(sdk.AlwaysSample()), // a span is only made where its trace is recorded
		sdk.WithIDGenerator(givenIDs{}),
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "dispatcher"), attribute.String("service.instance.id", o.Node), attribute.String("service.version", version.Text()),
		)),
		sdk.WithBatcher(t.exporter, sdk.WithMaxQueueSize(queueSize), sdk.WithMaxExportBatchSize(batchSize), sdk.WithBatchTimeout(sendEvery), sdk.WithExportTimeout(sendTime)),
	)
	t.spans = t.provider.Tracer("dispatcher")
	return t, nil
}

// Close sends the spans that are left, for [Options].Flush at most. Later spans are dropped.
func (t *Tracer) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), t.flush)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.exporter.note(err)
	}
	t.exporter.end()
}
