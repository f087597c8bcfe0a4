package embedded_test

import (
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/internal/background"
	"dispatcher/internal/embedded"
	"dispatcher/internal/provider"
	"dispatcher/job"
)

// begin runs parts until the test ends.
func begin(t *testing.T, o embedded.Options) *embedded.Parts {
	t.Helper()
	p, err := embedded.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Provider.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	background.Run(t, p.Run)
	return p
}

func enqueue(t *testing.T, p *embedded.Parts, n int) {
	t.Helper()
	write(t, p, "jobs", 0, n)
}

// write puts jobs from to to-1 into a topic.
func write(t *testing.T, p *embedded.Parts, topic string, from, to int) {
	t.Helper()
	var records []job.Record
	for i := from; i < to; i++ {
		records = append(records, job.Record{Key: fmt.Appendf(nil, "customer-%d", i%97), Value: fmt.Appendf(nil, `{"id":"job-%d","text":"hello"}`, i)})
	}
	writeTo(t, p, topic, records...)
}

func writeTo(t *testing.T, p *embedded.Parts, topic string, records ...job.Record) {
	t.Helper()
	producer, err := consumer.NewProducer(consumer.ProducerOptions{Connection: consumer.Connection{Brokers: p.Brokers()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = producer.Close() }()
	if err := producer.WriteBatch(t.Context(), topic, records); err != nil {
		t.Fatal(err)
	}
}

// settle waits until all jobs are settled and committed.
func settle(t *testing.T, p *embedded.Parts) {
	t.Helper()
	for {
		jobs, settled := p.Backlog()
		if jobs > 0 && jobs == settled {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%d of %d jobs settled", settled, jobs)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func logger(t *testing.T) *slog.Logger {
	t.Helper()
	if testing.Verbose() {
		return slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return slog.New(slog.DiscardHandler)
}

// patient are settings with a longer lateness: the embedded Redis is slow under the race detector, and late slots are not what
// the test is about.
func patient(settings ...string) []string {
	return append([]string{"limits.0.guard=60ms", "limits.0.lateness=50ms"}, settings...)
}

// fleet runs nodes on parts until all jobs are settled, and reports.
func fleet(t *testing.T, p *embedded.Parts, nodes int, settings ...string) provider.Report {
	t.Helper()
	f, err := embedded.NewFleet(p, nodes, logger(t), append([]string{"limits.0.cap=1000", "sender.retry.backoff=10ms", "sender.retry.max_backoff=50ms"}, settings...)...)
	if err != nil {
		t.Fatal(err)
	}
	stop := background.Run(t, f.Run)
	settle(t, p)
	stop()
	r := p.Provider.Report(provider.Contract{Window: time.Second, Caps: []provider.CapFrom{{Cap: 1000}}})
	if !r.Kept {
		t.Errorf("got windows over the cap: %+v", r.Over)
	}
	return r
}

// rec is a record without a key; pairs are its headers.
func rec(value string, pairs ...string) job.Record {
	r := job.Record{Value: []byte(value)}
	for i := 0; i < len(pairs); i += 2 {
		r.Headers = append(r.Headers, job.Header{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return r
}

// await waits for half a minute at most.
func await(t *testing.T, is func() bool) {
	t.Helper()
	for range 1500 {
		if is() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("half a minute passed")
}
