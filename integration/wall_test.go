package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"dispatcher/internal/containers"
)

const (
	wallEach     = 600
	wallAttempts = 3
	wallGood     = 15 * time.Second // within it all good jobs are sent
	wallBad      = time.Minute      // within it all bad jobs are dead-lettered
)

// Jobs that always get 503, ahead of as many good ones: the good ones are sent,
// and the bad ones go to the dead letters, whatever the order is.
func TestWallReal(t *testing.T) {
	w := startServers(t, containers.Kafka)
	for _, order := range []string{"key", "none"} {
		for _, limit := range []int{faultCap, 1000} {
			t.Run(fmt.Sprintf("order %s, %d in a second", order, limit), func(t *testing.T) { w.wall(t, limit, order) })
		}
	}
}

func (w *servers) wall(t *testing.T, limit int, order string) {
	t.Helper()
	s := w.scripted(t, limit, 12, faultLatency, "kafka.workers=64", "kafka.order="+order, fmt.Sprint("sender.retry.attempts=", wallAttempts))
	for _, kind := range []string{"refuse", "good"} {
		var records []*kgo.Record
		for i := range wallEach {
			id := fmt.Sprint(kind, "-", i)
			records = append(records, s.named(id, id))
		}
		put(t, s.producer(t), records...)
	}
	begun := time.Now()
	nodes := s.start(t, 2)
	dead, good := 0, time.Duration(0) // when all good ones were sent
	for time.Since(begun) < wallBad && dead < wallEach {
		pass(500 * time.Millisecond)
		dead = s.letterCount(t)
		if good == 0 && s.judge.report(t, s.cap).Accepted == wallEach {
			good = time.Since(begun)
		}
	}
	took := time.Since(begun)
	r := s.judge.report(t, s.cap)
	kept(t, r)
	t.Logf("from the start of the nodes: %d of %d good jobs sent after %v; %d of %d bad ones dead-lettered after %v, with %.2f calls each",
		r.Accepted, wallEach, good.Round(100*time.Millisecond), dead, wallEach, took.Round(100*time.Millisecond), float64(r.Sent-r.Accepted)/wallEach)
	if r.Accepted != wallEach || r.Doubled != 0 || dead != wallEach {
		t.Errorf("got %d good jobs sent (%d twice) and %d dead letters after %v, want %d of each", r.Accepted, r.Doubled, dead, took, wallEach)
	}
	figure(t, good > 0 && good <= wallGood, "got the good jobs sent after %v, want it within %v", good, wallGood)
	if dead == wallEach {
		s.settled(t, time.Minute)
	}
	stop(t, nodes...)
}

// letterCount is how many jobs have a dead letter. The topic may not be there yet,
// and a broker that is slow may have a letter twice.
func (s *scene) letterCount(t *testing.T) int {
	t.Helper()
	if _, err := endOffsets(t.Context(), s.client(t), s.topic+".dlq"); err != nil {
		return 0
	}
	ids := map[string]bool{}
	for _, m := range s.all(t, s.topic+".dlq") {
		ids[header(m, "idempotency-key")] = true
	}
	return len(ids)
}
