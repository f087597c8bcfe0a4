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

// wallAttempts is how often a bad job is called.
const wallAttempts = 3

// wall is a provider that never takes a job named bad. It counts the calls of each
// job, and how many bad ones had all their calls when a good one was accepted.
type wall struct {
	mu        sync.Mutex
	calls     map[string]int
	good      int
	over      int // bad jobs that had all their calls
	overFirst int // such bad jobs that came before a good one, added up over all good ones
}

func (w *wall) answer(_ int, key string) provider.Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[key]++
	if strings.HasPrefix(key, "bad") {
		if w.calls[key] == wallAttempts {
			w.over++
		}
		return provider.Answer{Status: 503, Delay: 20 * time.Millisecond}
	}
	w.good++
	w.overFirst += w.over
	return provider.Answer{Delay: 20 * time.Millisecond}
}

// sent returns how many good jobs were sent, and how many bad ones had all their calls before one of them, on average.
func (w *wall) sent() (good, before int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.good, w.overFirst / max(1, w.good)
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
	const each = 600
	w := &wall{calls: map[string]int{}}
	p := begin(t, embedded.Options{Provider: provider.Options{Answer: w.answer}})
	for _, kind := range []string{"bad", "good"} {
		var records []job.Record
		for i := range each {
			records = append(records, job.Record{Key: fmt.Appendf(nil, "%s-%d", kind, i), Value: fmt.Appendf(nil, `{"id":"%s-%d"}`, kind, i)})
		}
		writeTo(t, p, "jobs", records...)
	}
	f, err := embedded.NewFleet(p, 2, logger(t), append(patient("limits.0.cap=1000", "kafka.workers=64", fmt.Sprint("sender.retry.attempts=", wallAttempts)), settings...)...)
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, f.Run)
	begun := time.Now()
	for p.Dead() < each && time.Since(begun) < time.Minute {
		time.Sleep(20 * time.Millisecond)
	}
	good, before := w.sent()
	t.Logf("%d good jobs sent, and on average %d of %d bad ones had all their calls before; %d dead-lettered after %v",
		good, before, each, p.Dead(), time.Since(begun).Round(time.Millisecond))
	if good != each || before > each/2 || p.Dead() != each {
		t.Errorf("got %d good jobs sent, before which %d bad ones had all their calls, and %d dead letters; want %d, at most %d, and %d",
			good, before, p.Dead(), each, each/2, each)
	}
	settle(t, p)
	w.checkCalls(t, each)
}

// checkCalls demands that each bad job had its attempts. Calls that failed while nothing
// showed that the provider was up may come on top.
func (w *wall) checkCalls(t *testing.T, each int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := 0
	for i := range each {
		n := w.calls[fmt.Sprint("bad-", i)]
		calls += n
		if n < wallAttempts {
			t.Errorf("got %d calls of bad-%d, want at least %d", n, i, wallAttempts)
		}
		if n := w.calls[fmt.Sprint("good-", i)]; n != 1 {
			t.Errorf("got %d calls of good-%d, want 1", n, i)
		}
	}
	t.Logf("%.2f calls of each bad job", float64(calls)/float64(each))
}
