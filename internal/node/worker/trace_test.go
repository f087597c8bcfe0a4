package worker

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"dispatcher/consumer"
	"dispatcher/internal/node/pacer"
	"dispatcher/internal/tracing"
	"dispatcher/job"
	"dispatcher/sender"
)

// idleCaller makes no call.
type idleCaller struct{}

func (idleCaller) SendOn(context.Context, *sender.Conn, job.Job, sender.Permit) sender.Result {
	return sender.Result{Kind: sender.Accepted}
}

// visiting is a visit of a real delivery, whose calls cost nothing.
func visiting(tb testing.TB, tracer *tracing.Tracer) *visit {
	tb.Helper()
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "jobs"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(kafka.Close)
	conn := consumer.Connection{Brokers: kafka.ListenAddrs()}
	p, err := consumer.NewProducer(consumer.ProducerOptions{Connection: conn})
	if err != nil {
		tb.Fatal(err)
	}
	record := job.Record{Value: []byte("hello"), Headers: []job.Header{{Key: job.HeaderTraceparent, Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")}}}
	if err := p.WriteBatch(tb.Context(), "jobs", []job.Record{record}); err != nil {
		tb.Fatal(err)
	}
	_ = p.Close()
	c, err := consumer.New(consumer.Options{Connection: conn, Group: "g", Topics: []string{"jobs"}, CreateTopics: true, Workers: 1})
	if err != nil {
		tb.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	for c.ReadyJobs() == 0 {
		select {
		case <-tb.Context().Done():
			tb.Fatal("no job came")
		case <-time.After(10 * time.Millisecond):
		}
	}
	v := &visit{Handler: &Handler{o: Options{Sender: idleCaller{}, Tracer: tracer}}, Item: pacer.Item{Delivery: c.Take()}}
	tb.Cleanup(func() {
		v.Delivery.Release()
		stop()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
	})
	return v
}

// Without tracing a job's way to the sender allocates no more than the call of the sender alone.
func TestTracingThatIsOffAllocatesNothing(t *testing.T) {
	v := visiting(t, nil)
	bare := testing.AllocsPerRun(1000, func() { v.o.Sender.SendOn(v.Delivery.Context(), &v.Conn, v.Delivery.Job, v.permit) })
	if got := testing.AllocsPerRun(1000, func() { v.send(); v.traceUncalled(decision{action: doDeadLetter}) }); got != bare {
		t.Errorf("got %v allocations, want %v", got, bare)
	}
	if v.trace != nil {
		t.Error("the job has a trace")
	}
}

// The way of a job to the sender: without a word of tracing, with tracing off, and on.
func BenchmarkSend(b *testing.B) {
	r := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	b.Cleanup(r.Close)
	tracer, err := tracing.New(tracing.Options{Config: tracing.Config{Endpoint: r.URL, Insecure: true}, Node: "n", Limit: "provider", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(tracer.Close)
	off, on := visiting(b, nil), visiting(b, tracer)
	for name, send := range map[string]func(){
		"bare": func() { off.o.Sender.SendOn(off.Delivery.Context(), &off.Conn, off.Delivery.Job, off.permit) },
		"off":  func() { off.send() },
		"on":   func() { on.trace = nil; on.send() },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				send()
			}
		})
	}
}
