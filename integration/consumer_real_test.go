package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"dispatcher/internal/containers"
	"dispatcher/internal/provider"
)

// The consumer keeps its word on real servers: each job ends where it should,
// in order, once, whoever comes, goes or dies.
func TestConsumerReal(t *testing.T) {
	t.Run("Kafka 4.1", func(t *testing.T) {
		w := startServers(t, containers.Kafka)
		t.Run("each job ends where it should, in the order of keys", func(t *testing.T) { w.outcomes(t, "kafka.order=key") })
		t.Run("the jobs of a key are called in their order", w.orderOfKeys)
		t.Run("what is stuck holds up nobody", w.stuck)
		t.Run("nodes come and go", func(t *testing.T) { w.churn(t, 12) })
		t.Run("each job ends where it should, by way of retry topics", beside(func(t *testing.T) {
			t.Helper()
			w.outcomes(t, "kafka.order=none", "kafka.retry_topics=1s", "sender.retry.backoff=3s", "sender.retry.max_backoff=3s")
		}))
		t.Run("no aborted job is sent", beside(w.aborted))
		t.Run("a topic grows", beside(w.topicGrows))
		t.Run("a topic is recreated", beside(w.topicRecreated))
		t.Run("records are deleted before they are worked", beside(w.recordsDeleted))
		t.Run("a backlog costs no memory", beside(w.memory))
		for _, order := range []string{"none", "key", "partition"} {
			t.Run("attempts count across nodes, order "+order, beside(func(t *testing.T) { t.Helper(); w.attempts(t, order) }))
		}
	})
	t.Run("Kafka 3.9", func(t *testing.T) {
		w := startServers(t, containers.KafkaOld)
		t.Run("each job ends where it should, in the order of keys", func(t *testing.T) { w.outcomes(t, "kafka.order=key") })
		t.Run("nodes come and go", func(t *testing.T) { w.churn(t, 4) })
	})
}

// beside plays a scenario beside others: one that mostly waits, and measures
// nothing that they could disturb.
func beside(scenario func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		scenario(t)
	}
}

// scripted is a scene whose provider answers by the idempotency key.
func (w *servers) scripted(t *testing.T, limit, partitions int, latency time.Duration, settings ...string) *scene {
	t.Helper()
	return w.sceneBefore(t, w.startJudge(t, latency, "-script"), limit, partitions, settings...)
}

// named is a record of the scene's topic whose idempotency key is id.
func (s *scene) named(key, id string, headers ...kgo.RecordHeader) *kgo.Record {
	return &kgo.Record{
		Topic: s.topic, Key: []byte(key), Value: []byte("hello"),
		Headers: append(headers, kgo.RecordHeader{Key: "idempotency-key", Value: []byte(id)}),
	}
}

// producer is any team's producer.
func (s *scene) producer(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	usual := []kgo.Opt{kgo.SeedBrokers(s.kafka.Addr), kgo.UnknownTopicRetries(-1), kgo.ProducerLinger(5 * time.Millisecond), kgo.MaxBufferedRecords(200_000)}
	cl, err := kgo.NewClient(append(usual, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// put writes records and waits until Kafka has them.
func put(t *testing.T, cl *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// putWhere is put for records that say which partition they go to.
func (s *scene) putWhere(t *testing.T, records ...*kgo.Record) {
	t.Helper()
	put(t, s.producer(t, kgo.RecordPartitioner(kgo.ManualPartitioner())), records...)
}

// lagGone waits until the nodes' metrics say what the brokers said.
func (s *scene) lagGone(t *testing.T) {
	t.Helper()
	var lag float64
	eventually(t, 30*time.Second, func() bool {
		lag = 0
		for _, n := range s.running() {
			lag += n.metric(t, "dispatcher_consumer_lag_records")
		}
		return lag == 0
	}, func() string { return fmt.Sprintf("the nodes report a lag of %v", lag) })
}

// statuses are the answers that each job got, in the order of their calls.
func statuses(all []provider.Arrival) map[string][]int {
	slices.SortFunc(all, func(a, b provider.Arrival) int { return int(a.At - b.At) })
	got := map[string][]int{}
	for _, a := range all {
		got[a.Key] = append(got[a.Key], a.Status)
	}
	return got
}
