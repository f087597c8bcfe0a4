package embedded_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"dispatcher/consumer"
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
	background(t, p.Run)
	return p
}

// background runs something until the test ends, or until the function that is
// returned is called; it must end without an error.
func background(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	ended := false
	stop = func() {
		cancel()
		if ended {
			return
		}
		ended = true
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
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

// A fleet sends every job once and passes the cap in no window that could be
// judged.
func TestFleetSendsEachJobOnce(t *testing.T) {
	const jobs, limit = 900, 300
	p := begin(t, embedded.Options{Provider: provider.Options{Behaviour: provider.Behaviour{Latency: 20 * time.Millisecond}}})
	enqueue(t, p, jobs)
	f, err := embedded.NewFleet(p, 3, logger(t), fmt.Sprintf("limits.0.cap=%d", limit))
	if err != nil {
		t.Fatal(err)
	}
	stop := background(t, f.Run)
	settle(t, p)
	stop()
	r := p.Provider.Report(provider.Contract{Window: time.Second, Caps: []provider.CapFrom{{Cap: limit}}})
	if r.Sent != jobs || r.Distinct != jobs || p.Dead() != 0 {
		t.Errorf("got %d calls for %d jobs and %d dead letters, want %d, %d and 0", r.Sent, r.Distinct, p.Dead(), jobs, jobs)
	}
	if !r.Kept {
		t.Errorf("got windows over the cap of %d: %+v", limit, r.Over)
	}
	t.Logf("%d in the fullest window, %.3f of the cap used, %.2f unjudged, %.2f script calls a job",
		r.MaxInWindow, r.Utilisation, r.Unjudged, f.Sum("dispatcher_limit_script_calls_total")/jobs)
}

// A node that can't go on ends by itself, and says why.
func TestANodeThatCannotGoOnEnds(t *testing.T) {
	p := begin(t, embedded.Options{})
	f, err := embedded.NewFleet(p, 1, logger(t), "kafka.topics=missing")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("got %v, want an error that names the topic", err)
	}
}

// So does one whose jobs wait for a slot that is long in coming.
func TestANodeThatCannotGoOnEndsWhileItsJobsWait(t *testing.T) {
	t.Parallel()
	p := begin(t, embedded.Options{MoreTopics: []string{"other"}, Partitions: 1})
	enqueue(t, p, 10)
	f, err := embedded.NewFleet(p, 1, logger(t), "limits.0.cap=1", "limits.0.window=24h", "kafka.topics=jobs,other", "kafka.out_of_range=stop")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	await(t, func() bool { s := f.Nodes[0].Consumer(); return len(s.Partitions) == 2 && s.Lanes[0].Ready == 10 })
	recreate(t, p, "other")
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "topic other: the topic was deleted") || ctx.Err() != nil {
		t.Errorf("got %v and context error %v, want an end by itself, with what is wrong with the topic", err, ctx.Err())
	}
}
