package embedded_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"dispatcher/internal/embedded"
	"dispatcher/internal/provider"
)

// acceptedJobs notes which jobs the provider accepted, in that order.
type acceptedJobs struct {
	mu   sync.Mutex
	rand *rand.Rand
	ids  []int
}

// answer fails one call in five.
func (l *acceptedJobs) answer(_ int, key string) provider.Answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rand.IntN(5) == 0 {
		return provider.Answer{Status: 503}
	}
	id, _ := strconv.Atoi(strings.TrimPrefix(key, "job-"))
	l.ids = append(l.ids, id)
	return provider.Answer{}
}

// However many calls fail, the provider accepts the jobs of a key in order; with
// the dedup store as well.
func TestRetriesKeepTheOrderOfAKey(t *testing.T) {
	t.Parallel()
	for _, dedup := range []string{"dedup.enabled=false", "dedup.enabled=true"} {
		t.Run(dedup, func(t *testing.T) {
			t.Parallel()
			retriesInOrder(t, dedup)
		})
	}
}

func retriesInOrder(t *testing.T, setting string) {
	t.Helper()
	const jobs = 600
	l := &acceptedJobs{rand: rand.New(rand.NewPCG(1, 2))}
	p := begin(t, embedded.Options{Provider: provider.Options{Answer: l.answer}})
	enqueue(t, p, jobs)
	fleet(t, p, 2, "sender.retry.attempts=100", "sender.breaker.failures=1000", setting)
	last := map[int]int{}
	for _, id := range l.ids {
		if before, seen := last[id%97]; seen && before >= id {
			t.Errorf("job %d of key %d was accepted after job %d", id, id%97, before)
		}
		last[id%97] = id
	}
	if len(l.ids) != jobs {
		t.Errorf("got %d accepted, want %d", len(l.ids), jobs)
	}
}

// In partition order that holds for each partition, as it was written.
func TestRetriesKeepTheOrderOfAPartition(t *testing.T) {
	t.Parallel()
	const jobs = 150
	l := &acceptedJobs{rand: rand.New(rand.NewPCG(3, 4))}
	p := begin(t, embedded.Options{Partitions: 1, Provider: provider.Options{Answer: l.answer}})
	enqueue(t, p, jobs)
	fleet(t, p, 2, "sender.retry.attempts=100", "sender.breaker.failures=1000", "kafka.order=partition")
	if len(l.ids) != jobs || !slices.IsSorted(l.ids) {
		t.Errorf("got %d accepted, in order %v; want %d, in order", len(l.ids), slices.IsSorted(l.ids), jobs)
	}
}
