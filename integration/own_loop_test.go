package integration

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
)

// ownLoop is what a team would write instead of a node: a reader of kafka-go, workers that make a call of net/http for each job, and
// offsets that are committed ten times a second. It has no limit, no order, no retries and no results; it loses jobs where it is killed.
// It returns what this process used of its processors for a job.
func (s *scene) ownLoop(t *testing.T, jobs, workers int) time.Duration {
	t.Helper()
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
				if err := s.callOf(t.Context(), client, m); err != nil {
					t.Error(err)
				}
				if err := r.CommitMessages(t.Context(), m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range jobs {
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
	return used / time.Duration(jobs)
}

// callOf makes the call that a job asks for.
func (s *scene) callOf(ctx context.Context, client *http.Client, m kafka.Message) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.judge.addr+"/send", bytes.NewReader(m.Value))
	if err != nil {
		return err
	}
	req.Header.Set("Idempotency-Key", fmt.Sprintf("%d-%d", m.Partition, m.Offset))
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("job %d-%d: got status %d", m.Partition, m.Offset, resp.StatusCode)
	}
	return nil
}
