package integration

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
)

// ownLoop is what a team would write instead of a node: a reader of kafka-go, workers that make a call of net/http for each job, and
// offsets that are committed ten times a second. It has no limit, no order, no retries and no results; it loses jobs where it is killed.
// It returns what this process used of its processors for all unboundJobs.
func ownLoop(t *testing.T, s *scene) time.Duration {
	t.Helper()
	const workers = 256 // as a node has
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{s.kafka.Addr}, Topic: s.topic, GroupID: s.namespace, StartOffset: kafka.FirstOffset, CommitInterval: 100 * time.Millisecond,
		MaxWait: 100 * time.Millisecond,
	})
	transport := &http.Transport{MaxIdleConns: workers, MaxIdleConnsPerHost: workers}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	begin := processTime(t)
	queue := make(chan kafka.Message)
	var pool sync.WaitGroup
	for range workers {
		pool.Go(func() {
			for m := range queue {
				status, err := s.judge.call(t.Context(), client, fmt.Sprintf("%d-%d", m.Partition, m.Offset), m.Value, 0)
				if err != nil || status != http.StatusOK {
					t.Errorf("got status %d, %v", status, err)
				}
				if err := r.CommitMessages(t.Context(), m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range unboundJobs {
		m, err := r.FetchMessage(t.Context())
		if err != nil {
			t.Error(err)
			break
		}
		queue <- m
	}
	close(queue)
	pool.Wait()
	used := processTime(t) - begin
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	return used
}
