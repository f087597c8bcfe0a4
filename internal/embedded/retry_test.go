package embedded_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/internal/background"
	"dispatcher/internal/embedded"
	"dispatcher/internal/provider"
	"dispatcher/job"
)

// A job that fails while others succeed is dead-lettered after its attempts.
func TestPoisonIsDeadLettered(t *testing.T) {
	t.Parallel()
	const jobs, attempts = 300, 3
	p := begin(t, embedded.Options{Provider: provider.Options{Answer: func(_ int, key string) provider.Answer {
		if key == "job-3" {
			return provider.Answer{Status: 503}
		}
		return provider.Answer{Delay: time.Millisecond}
	}}})
	enqueue(t, p, jobs)
	r := fleet(t, p, 1, fmt.Sprintf("sender.retry.attempts=%d", attempts))
	if p.Dead() != 1 || r.Accepted != jobs-1 || r.Sent < jobs-1+attempts {
		t.Errorf("got %d dead letters, %d accepted in %d calls, want 1 and %d", p.Dead(), r.Accepted, r.Sent, jobs-1)
	}
}

// Without order, a job that fails goes to a retry topic and comes back with its
// attempts: those that get well are accepted once, the others are dead after as
// many calls as are allowed, and the sum is exact.
func TestRetriesByARetryTopicAreExact(t *testing.T) {
	t.Parallel()
	for _, dedup := range []string{"dedup.enabled=false", "dedup.enabled=true"} {
		t.Run(dedup, func(t *testing.T) {
			t.Parallel()
			retriesByARetryTopic(t, dedup)
		})
	}
}

func retriesByARetryTopic(t *testing.T, dedup string) {
	t.Helper()
	const jobs, attempts = 200, 3
	var mu sync.Mutex
	calls := map[string]int{}
	p := begin(t, embedded.Options{Provider: provider.Options{Answer: func(_ int, key string) provider.Answer {
		mu.Lock()
		defer mu.Unlock()
		calls[key]++
		n, _ := strconv.Atoi(strings.TrimPrefix(key, "job-"))
		if n%20 == 3 || n%10 == 4 && calls[key] == 1 {
			return provider.Answer{Status: 503}
		}
		return provider.Answer{}
	}}})
	enqueue(t, p, jobs)
	f, err := embedded.NewFleet(p, 1, logger(t), patient("limits.0.cap=100", "kafka.order=none", "kafka.retry_topics=1s", dedup,
		"sender.retry.backoff=2s", "sender.retry.max_backoff=2s", fmt.Sprint("sender.retry.attempts=", attempts))...)
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, f.Run)
	trickle(t, p, func() bool { return p.Dead() == jobs/20 })
	mu.Lock()
	defer mu.Unlock()
	for i := range jobs {
		key, want := fmt.Sprint("job-", i), 1
		switch {
		case i%20 == 3:
			want = attempts
		case i%10 == 4:
			want = 2
		}
		// A failure does not count where nothing else was answered since the one before.
		if got := calls[key]; got < want || got > want && i%20 != 3 {
			t.Errorf("%s: got %d calls, want %d", key, got, want)
		}
	}
}

// trickle writes a good job now and then until something is true: failures count
// only while the provider serves others.
func trickle(t *testing.T, p *embedded.Parts, until func() bool) {
	t.Helper()
	for n := 0; !until(); n++ {
		if n == 600 {
			t.Fatal("30 seconds have passed")
		}
		write(t, p, "jobs", 100_000+20*n, 100_001+20*n)
		time.Sleep(50 * time.Millisecond)
	}
}

// An outage dead-letters nothing, however many times each job is tried.
func TestOutageDeadLettersNothing(t *testing.T) {
	t.Parallel()
	const jobs, bad = 20, 200
	p := begin(t, embedded.Options{Provider: provider.Options{Answer: func(n int, _ string) provider.Answer {
		if n < bad {
			return provider.Answer{Status: 503}
		}
		return provider.Answer{}
	}}})
	enqueue(t, p, jobs)
	r := fleet(t, p, 1, "sender.retry.attempts=2", "sender.breaker.failures=5", "sender.breaker.probe=10ms")
	if p.Dead() != 0 || r.Accepted != jobs {
		t.Errorf("got %d dead letters and %d accepted after %d refusals, want 0 and %d", p.Dead(), r.Accepted, bad, jobs)
	}
}

// A job whose not-after has passed is not sent.
func TestExpiredIsNotSent(t *testing.T) {
	t.Parallel()
	p := begin(t, embedded.Options{})
	producer, err := consumer.NewProducer(consumer.ProducerOptions{Connection: consumer.Connection{Brokers: p.Brokers()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = producer.Close() }()
	past := []job.Header{{Key: job.HeaderNotAfter, Value: []byte("2020-01-01T00:00:00Z")}}
	err = producer.WriteBatch(t.Context(), "jobs", []job.Record{{Value: []byte("late"), Headers: past}, {Value: []byte("on time")}})
	if err != nil {
		t.Fatal(err)
	}
	r := fleet(t, p, 1)
	if r.Sent != 1 || p.Dead() != 1 {
		t.Errorf("got %d calls and %d dead letters, want 1 and 1", r.Sent, p.Dead())
	}
}

// Written and not answered: tried again under the same key, or dead-lettered.
func TestUnknown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		onUnknown      string
		dedup          bool
		accepted, dead int
	}{{"retry", false, 10, 0}, {"dlq", false, 9, 1}, {"retry", true, 10, 0}, {"dlq", true, 9, 1}} {
		t.Run(fmt.Sprint(c.onUnknown, " dedup ", c.dedup), func(t *testing.T) {
			t.Parallel()
			p := begin(t, embedded.Options{Provider: provider.Options{Behaviour: provider.Behaviour{Fault: provider.Cut, First: 1}}})
			enqueue(t, p, 10)
			r := fleet(t, p, 1, "sender.on_unknown="+c.onUnknown, fmt.Sprint("dedup.enabled=", c.dedup))
			if r.Accepted != c.accepted || p.Dead() != int64(c.dead) || r.Doubled != 0 {
				t.Errorf("got %d accepted, %d dead, %d doubled, want %d, %d and 0", r.Accepted, p.Dead(), r.Doubled, c.accepted, c.dead)
			}
		})
	}
}

// Where a full bucket refuses, what it has no room for is dead-lettered, and
// the rest is sent; nothing is lost between the two.
func TestAFullBucketRefusesJobs(t *testing.T) {
	t.Parallel()
	const jobs = 600
	p := begin(t, embedded.Options{})
	enqueue(t, p, jobs)
	r := fleet(t, p, 2, "limits.0.algorithm=leaky_bucket", "limits.0.cap=100", "limits.0.capacity=10", "limits.0.when_full=refuse")
	if dead := int(p.Dead()); r.Sent+dead != jobs || r.Sent < 10 || dead < jobs/2 {
		t.Errorf("got %d calls and %d dead letters, want %d in all, and more than half dead", r.Sent, dead, jobs)
	}
}
