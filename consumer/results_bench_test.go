package consumer_test

import (
	"context"
	"testing"
	"time"

	"dispatcher/consumer"
)

// BenchmarkResults is BenchmarkConsume with a result for each job. call-ns/job is the time
// that a worker spends in Done. With one job in flight, the rest of ns/op is how much longer a
// job is open.
func BenchmarkResults(b *testing.B) {
	for _, c := range []struct {
		name     string
		results  bool
		inFlight int
	}{{"without", false, 256}, {"with", true, 256}, {"one in flight without", false, 1}, {"one in flight with", true, 1}} {
		b.Run(c.name, func(b *testing.B) { settleAll(b, c.results, c.inFlight) })
	}
}

func settleAll(b *testing.B, results bool, inFlight int) {
	b.Helper()
	conn := filled(b, b.N)
	c, err := consumer.New(consumer.Options{
		Connection: conn, Group: "g", Topics: []string{"jobs"}, CreateTopics: true, Results: results, Workers: inFlight,
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	b.ReportAllocs()
	var before, inCall time.Duration
	seen := 0
	for d := range taken(c) {
		if seen == 0 { // joined
			b.ResetTimer()
			before = cpu()
		}
		began := time.Now()
		d.Done(consumer.Outcome{Status: 202, Attempts: 1, SentAt: began, MessageID: "0123456789"})
		inCall += time.Since(began)
		if seen++; seen == b.N {
			break
		}
	}
	b.StopTimer()
	report(b, before)
	b.ReportMetric(float64(inCall.Nanoseconds())/float64(b.N), "call-ns/job")
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}
