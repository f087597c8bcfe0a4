package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// outcomeJobs is a multiple of 7, 11 and 13.
const outcomeJobs = 4004

// outcomeOf is what becomes of a job: every 7th can't be read, every 11th of the
// others is rejected, every 13th of the rest is unavailable twice.
func outcomeOf(i int) string {
	switch {
	case i%7 == 0:
		return "unreadable"
	case i%11 == 0:
		return "reject"
	case i%13 == 0:
		return "twice"
	}
	return "plain"
}

// outcomes: each job ends where it should, the sum is exact, and no call is made
// twice but those that were unavailable.
func (w *servers) outcomes(t *testing.T, settings ...string) {
	t.Helper()
	// The provider is up: the breaker must not take those that are unavailable last for an outage.
	s := w.scripted(t, 2000, 6, 5*time.Millisecond, append(settings, "sender.breaker.failures=1000")...)
	retryTopics := slices.ContainsFunc(settings, func(set string) bool { return strings.Contains(set, "retry_topics") })
	count := s.writeOutcomes(t)
	begin := time.Now()
	nodes := s.start(t, 2)
	calls := count["plain"] + count["reject"] + 3*count["twice"]
	s.judge.count(t, calls, time.Minute)
	s.settled(t, time.Minute)
	delayed := 0.0
	for _, n := range nodes {
		delayed += n.metric(t, "dispatcher_consumer_retry_topic_records_total")
	}
	if retryTopics {
		s.settledIn(t, s.topic+".retry.1s")
	}
	s.lagGone(t)
	took := time.Since(begin)
	stop(t, nodes...)
	s.endedWell(t)
	dead := s.deadLettered(t)
	r := s.judge.report(t, s.cap)
	kept(t, r)
	if r.Sent != calls || r.Accepted+dead != outcomeJobs || r.Doubled != 0 || retryTopics != (delayed > 0) {
		t.Errorf("got %d calls, %d accepted, %d dead, %v delayed, want %d calls, and %d jobs in all", r.Sent, r.Accepted, dead, delayed, calls, outcomeJobs)
	}
	t.Logf("%d jobs in %v: %d accepted, %d dead, %v passes through the retry topic; %d calls, %d of them of the %d that were unavailable",
		outcomeJobs, took.Round(time.Millisecond), r.Accepted, dead, delayed, r.Sent, 3*count["twice"], count["twice"])
}

func (s *scene) writeOutcomes(t *testing.T) (count map[string]int) {
	t.Helper()
	count = map[string]int{}
	var records []*kgo.Record
	for i := range outcomeJobs {
		outcome := outcomeOf(i)
		count[outcome]++
		var bad []kgo.RecordHeader
		if outcome == "unreadable" {
			bad = []kgo.RecordHeader{{Key: "not-after", Value: []byte("many")}}
		}
		records = append(records, s.named(fmt.Sprint("k", i%997), fmt.Sprint(outcome, "-", i), bad...))
	}
	put(t, s.producer(t), records...)
	return count
}

// settledIn is settled for a derived topic, which may have been left empty.
func (s *scene) settledIn(t *testing.T, topic string) {
	t.Helper()
	var records, committed int64
	eventually(t, time.Minute, func() bool {
		records, committed = s.backlogOf(t, topic)
		return records == committed
	}, func() string { return fmt.Sprintf("%d of %d records of %s are settled", committed, records, topic) })
}

// endedWell compares what the provider saw of each job with its outcome.
func (s *scene) endedWell(t *testing.T) {
	t.Helper()
	got := statuses(s.judge.arrivals(t))
	want := map[string][]int{"plain": {200}, "reject": {400}, "twice": {503, 503, 200}}
	for i := range outcomeJobs {
		id := fmt.Sprint(outcomeOf(i), "-", i)
		if !slices.Equal(got[id], want[outcomeOf(i)]) {
			t.Errorf("job %s: got answers %v, want %v", id, got[id], want[outcomeOf(i)])
		}
	}
}

// deadLettered checks that the dead letters are the jobs that have to be there, each
// once and of its class, and returns how many there are.
func (s *scene) deadLettered(t *testing.T) (dead int) {
	t.Helper()
	want := map[string]string{"unreadable": "decode", "reject": "permanent"}
	seen := map[string]bool{}
	for _, m := range s.all(t, s.topic+".dlq") {
		id := header(m, "idempotency-key")
		outcome, _, _ := strings.Cut(id, "-")
		if class := header(m, "x-error-class"); class != want[outcome] || class == "" || seen[id] {
			t.Errorf("job %s: got a letter of class %q, want one of %q (seen before: %v)", id, class, want[outcome], seen[id])
		}
		seen[id] = true
	}
	for i := range outcomeJobs {
		if id := fmt.Sprint(outcomeOf(i), "-", i); want[outcomeOf(i)] != "" && !seen[id] {
			t.Errorf("job %s has no dead letter", id)
		}
	}
	return len(seen)
}
