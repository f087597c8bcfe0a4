package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"dispatcher/internal/provider"
)

const (
	attemptsOf    = 10
	attemptsParts = 12 // every second one has jobs that always fail, the others have good ones
	attemptsGood  = 2000
)

// attempts: jobs that always fail are called as often as the attempts allow,
// though nodes join, are killed and leave meanwhile. A kill costs one more at most:
// the call on the wire, or the failure since the last commit.
func (w *servers) attempts(t *testing.T, order string) {
	t.Helper()
	const kills = 1
	s := w.scripted(t, 200, attemptsParts, faultLatency, "kafka.order="+order, "kafka.session=6s", "kafka.drain=4500ms", "sender.http.timeout=3s",
		fmt.Sprint("sender.retry.attempts=", attemptsOf), "sender.retry.backoff=1s", "sender.retry.max_backoff=2s")
	var records []*kgo.Record
	for p := range int32(attemptsParts) {
		if p%2 == 0 {
			records = append(records, s.at(p, fmt.Sprint("refuse-", p), 0, 1)...)
		} else {
			records = append(records, s.at(p, fmt.Sprint("good-", p), 0, attemptsGood)...)
		}
	}
	s.putWhere(t, records...)
	first := s.startOne(t)
	s.judge.count(t, 200, time.Minute)
	pass(2 * time.Second)
	s.startOne(t)
	pass(3 * time.Second)
	s.kill(t, first)
	third := s.startOne(t)
	pass(9 * time.Second) // the session of the killed one is over
	stop(t, third)
	dead := 0
	for begun := time.Now(); dead < attemptsParts/2 && time.Since(begun) < time.Minute; pass(time.Second) { // to count is not cheap
		dead = s.letterCount(t)
	}
	if dead != attemptsParts/2 {
		t.Errorf("%d dead letters, want %d", dead, attemptsParts/2)
	}
	stop(t, s.running()...)
	all := slices.DeleteFunc(s.judge.arrivals(t), func(a provider.Arrival) bool { return !strings.HasPrefix(a.Key, "refuse") })
	calls := statuses(all)
	moved := movedBetween(all)
	var counts []int
	for job, answers := range calls {
		n := len(answers)
		counts = append(counts, n)
		if n < attemptsOf || n > attemptsOf+kills {
			t.Errorf("%s was called %d times, want %d to %d", job, n, attemptsOf, attemptsOf+kills)
		}
	}
	slices.Sort(counts)
	if moved == 0 {
		t.Error("no job that failed was called by two nodes; this shows nothing")
	}
	t.Logf("order %s: %d jobs that always fail, %d of them called by several nodes: %v calls, attempts are %d", order, len(calls), moved, counts, attemptsOf)
}

// movedBetween is how many jobs were called by several nodes.
func movedBetween(all []provider.Arrival) (jobs int) {
	by := map[string]map[int]bool{}
	for _, a := range all {
		if by[a.Key] == nil {
			by[a.Key] = map[int]bool{}
		}
		by[a.Key][a.Node] = true
	}
	for _, nodes := range by {
		if len(nodes) > 1 {
			jobs++
		}
	}
	return jobs
}
