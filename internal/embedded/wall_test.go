package embedded_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"dispatcher/internal/background"
	"dispatcher/internal/embedded"
	"dispatcher/internal/provider"
	"dispatcher/job"
)

// wall is a provider that never takes a job named bad. It counts the calls of each
// job, and notes when the last good one was accepted.
type wall struct {
	mu    sync.Mutex
	calls map[string]int
	good  int
	last  time.Time
}

func (w *wall) answer(_ int, key string) provider.Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[key]++
	if strings.HasPrefix(key, "bad") {
		return provider.Answer{Status: 503, Delay: 20 * time.Millisecond}
	}
	w.good++
	w.last = time.Now()
	return provider.Answer{Delay: 20 * time.Millisecond}
}

func (w *wall) sent() (int, time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.good, w.last
}

// Jobs that always fail, ahead of good ones, hold up no good one. They reach
// their last attempt and the dead letters, and nothing else is left to prove
// that the provider is up.
func TestAWallOfFailingJobsHoldsUpNobody(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"key", "none"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			beatsTheWall(t, "kafka.order="+order)
		})
	}
}

func beatsTheWall(t *testing.T, settings ...string) {
	t.Helper()
	const each, attempts = 600, 3
	w := &wall{calls: map[string]int{}}
	p := begin(t, embedded.Options{Provider: provider.Options{Answer: w.answer}})
	for _, kind := range []string{"bad", "good"} {
		var records []job.Record
		for i := range each {
			records = append(records, job.Record{Key: fmt.Appendf(nil, "%s-%d", kind, i), Value: fmt.Appendf(nil, `{"id":"%s-%d"}`, kind, i)})
		}
		writeTo(t, p, "jobs", records...)
	}
	f, err := embedded.NewFleet(p, 2, logger(t), append(patient("limits.0.cap=1000", "kafka.workers=64", fmt.Sprint("sender.retry.attempts=", attempts)), settings...)...)
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, f.Run)
	begun := time.Now()
	for p.Dead() < each && time.Since(begun) < time.Minute {
		time.Sleep(20 * time.Millisecond)
	}
	good, last := w.sent()
	t.Logf("%d good jobs sent, the last %v after the start; %d of %d bad ones dead-lettered after %v",
		good, last.Sub(begun).Round(time.Millisecond), p.Dead(), each, time.Since(begun).Round(time.Millisecond))
	if good != each || last.Sub(begun) > 15*time.Second || p.Dead() != each {
		t.Errorf("got %d good jobs sent within %v and %d dead letters, want %d within 15s and %d", good, last.Sub(begun), p.Dead(), each, each)
	}
	settle(t, p)
	w.checkCalls(t, each, attempts)
}

// checkCalls demands that each bad job had its attempts. Calls that failed while nothing
// showed that the provider was up may come on top.
func (w *wall) checkCalls(t *testing.T, each, attempts int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := 0
	for i := range each {
		n := w.calls[fmt.Sprint("bad-", i)]
		calls += n
		if n < attempts {
			t.Errorf("got %d calls of bad-%d, want at least %d", n, i, attempts)
		}
		if n := w.calls[fmt.Sprint("good-", i)]; n != 1 {
			t.Errorf("got %d calls of good-%d, want 1", n, i)
		}
	}
	t.Logf("%.2f calls of each bad job", float64(calls)/float64(each))
}
