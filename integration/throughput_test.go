package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/segmentio/kafka-go"

	"dispatcher/consumer"
	"dispatcher/internal/containers"
	"dispatcher/internal/dedup"
	"dispatcher/job"
)

// BenchmarkThroughputReal is what the consumer and the dedup store cost without a
// limit and without calls, on real servers, beside a loop that only fetches the
// same records. cpu-ns/job is this process's alone.
//
//	go test -run '^$' -bench Throughput -benchtime 2000000x ./integration
func BenchmarkThroughputReal(b *testing.B) {
	containers.Need(b)
	brokers := []string{containers.Kafka(b).Addr}
	rdb := redis.NewClient(&redis.Options{Addr: containers.Redis(b).Addr, MaxRetries: -1, ReadTimeout: 10 * time.Second})
	b.Cleanup(func() { _ = rdb.Close() })
	b.Run("bare fetch", func(b *testing.B) { benchFetch(b, brokers) })
	b.Run("consumer", func(b *testing.B) {
		benchConsumer(b, brokers, func(d *consumer.Delivery) { d.Done(consumer.Outcome{}) })
	})
	b.Run("consumer and dedup store", func(b *testing.B) {
		dedup, stop := startDedup(b, rdb)
		defer stop()
		benchConsumer(b, brokers, claimAndDo(b, dedup))
		b.ReportMetric(float64(scriptsRun(b, rdb, "evalsha", "eval").calls)/float64(b.N), "scripts/job")
	})
}

const benchPartitions = 4

// filled makes a topic of b.N jobs of 200 bytes with a key.
func filled(b *testing.B, brokers []string) (topic string) {
	b.Helper()
	topic = fmt.Sprintf("jobs-%d", time.Now().UnixNano())
	client := &kafka.Client{Addr: kafka.TCP(brokers...), Transport: &kafka.Transport{}}
	_, err := client.CreateTopics(b.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
		{Topic: topic, NumPartitions: benchPartitions, ReplicationFactor: 1},
	}})
	if err != nil {
		b.Fatal(err)
	}
	p, err := consumer.NewProducer(consumer.ProducerOptions{Connection: consumer.Connection{Brokers: brokers}})
	if err != nil {
		b.Fatal(err)
	}
	value := append(append([]byte(`{"text":"`), bytes.Repeat([]byte("x"), 190)...), `"}`...)
	const batch = 10_000
	for i := 0; i < b.N; {
		var jobs []job.Record
		for ; i < b.N && len(jobs) < batch; i++ {
			jobs = append(jobs, job.Record{Key: fmt.Append(nil, "customer-", i), Value: value})
		}
		if err := p.WriteBatch(b.Context(), topic, jobs); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		b.Fatal(err)
	}
	return topic
}

// processTime is what this process has used of its processors.
func processTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func reportCost(b *testing.B, used time.Duration) {
	b.Helper()
	b.ReportMetric(float64((processTime(b)-used).Nanoseconds())/float64(b.N), "cpu-ns/job")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// benchConsumer times from the first job on: to join takes seconds.
func benchConsumer(b *testing.B, brokers []string, work func(*consumer.Delivery)) {
	b.Helper()
	topic := filled(b, brokers)
	c, err := consumer.New(consumer.Options{
		Connection: consumer.Connection{Brokers: brokers}, Group: "bench", Topics: []string{topic}, CreateTopics: true,
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	var used time.Duration
	seen := 0
	for range c.Ready() {
		for d := c.Take(); d != nil; d = c.Take() {
			if seen == 0 {
				b.ReportAllocs()
				b.ResetTimer()
				used = processTime(b)
			}
			work(d)
			seen++
		}
		if seen >= b.N {
			break
		}
	}
	eventuallySettled(b, c)
	b.StopTimer()
	reportCost(b, used)
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

// eventuallySettled waits for the last commits.
func eventuallySettled(b *testing.B, c *consumer.Consumer) {
	b.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for range look.C {
		if s := c.Status(); s.Lag == 0 && s.InFlight == 0 {
			return
		}
		if b.Context().Err() != nil {
			b.Fatal("the jobs are not settled")
		}
	}
}

func startDedup(b *testing.B, rdb *redis.Client) (*dedup.Store, func()) {
	b.Helper()
	if err := rdb.FlushAll(b.Context()).Err(); err != nil {
		b.Fatal(err)
	}
	if err := rdb.ConfigResetStat(b.Context()).Err(); err != nil {
		b.Fatal(err)
	}
	l, err := dedup.New(dedup.Options{Redis: rdb, Namespace: "bench", CallTimeout: 5 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = l.Run(ctx) })
	return l, func() {
		stop()
		running.Wait()
	}
}

// claimAndDo is what a worker does of a job with a dedup store, less its call.
func claimAndDo(b *testing.B, l *dedup.Store) func(*consumer.Delivery) {
	b.Helper()
	return func(d *consumer.Delivery) {
		go func() {
			e := l.Open(d.Job.ID)
			a, err := e.Claim(b.Context(), time.Time{})
			if err != nil || a.Standing != dedup.Granted {
				b.Errorf("claim of %s: %+v, %v", d.Job.ID, a, err)
				d.Release()
				return
			}
			e.Done(b.Context(), 0, func(error) { d.Done(consumer.Outcome{}) })
		}()
	}
}

// scripts are those that Redis has run since its statistics began.
type scripts struct {
	calls int
	took  time.Duration
}

// scriptsRun are the scripts that were run by these commands. It fails where there were none.
func scriptsRun(t testing.TB, rdb *redis.Client, commands ...string) (all scripts) {
	t.Helper()
	info, err := rdb.InfoMap(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range commands {
		calls, us := 0, 0
		if _, err := fmt.Sscanf(info["Commandstats"]["cmdstat_"+command], "calls=%d,usec=%d,", &calls, &us); err == nil {
			all.calls, all.took = all.calls+calls, all.took+time.Duration(us)*time.Microsecond
		}
	}
	if all.calls == 0 {
		t.Fatalf("no script was called: %v", info)
	}
	return all
}

func benchFetch(b *testing.B, brokers []string) {
	b.Helper()
	topic := filled(b, brokers)
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(brokers...), Transport: transport}
	b.ReportAllocs()
	b.ResetTimer()
	used := processTime(b)
	seen := make([]int, benchPartitions)
	var loops sync.WaitGroup
	for p := range benchPartitions { // as many as the consumer has
		loops.Go(func() { seen[p] = fetchAll(b, client, topic, p) })
	}
	loops.Wait()
	b.StopTimer()
	reportCost(b, used)
	all := 0
	for _, n := range seen {
		all += n
	}
	if all != b.N {
		b.Fatalf("got %d records, want %d", all, b.N)
	}
}

// fetchAll reads a partition to its end, and does nothing with it.
func fetchAll(b *testing.B, client *kafka.Client, topic string, partition int) (seen int) {
	b.Helper()
	for offset, end := int64(0), int64(1); offset < end; {
		res, err := client.Fetch(b.Context(), &kafka.FetchRequest{
			Topic: topic, Partition: partition, Offset: offset, MinBytes: 1, MaxBytes: 256 << 10, MaxWait: time.Second,
		})
		if err != nil {
			b.Error(err)
			return seen
		}
		for end = res.HighWatermark; ; seen++ {
			rec, err := res.Records.ReadRecord()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				b.Error(err)
				return seen
			}
			offset = rec.Offset + 1
		}
	}
	return seen
}
