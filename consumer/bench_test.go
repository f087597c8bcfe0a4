package consumer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/job"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
)

const benchPartitions = 4

// filled is a cluster on loopback that holds n jobs of 200 bytes with a key.
func filled(b *testing.B, n int) consumer.Connection {
	b.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(benchPartitions, "jobs"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	conn := consumer.Connection{Brokers: []string{c.ListenAddrs()[0]}}
	p, err := consumer.NewProducer(consumer.ProducerOptions{Connection: conn})
	if err != nil {
		b.Fatal(err)
	}
	value := append([]byte(`{"id":"0123456789","text":"`), bytes.Repeat([]byte("x"), 170)...)
	value = append(value, `"}`...)
	batch := make([]job.Record, 0, 10_000)
	for i := range n {
		batch = append(batch, job.Record{Key: []byte{byte(i >> 16), byte(i >> 8), byte(i)}, Value: value})
		if len(batch) == cap(batch) || i == n-1 {
			if err := p.WriteBatch(b.Context(), "jobs", batch); err != nil {
				b.Fatal(err)
			}
			batch = batch[:0]
		}
	}
	if err := p.Close(); err != nil {
		b.Fatal(err)
	}
	return conn
}

// cpu is the processor time that the process has used so far, with that of the fake broker.
// So compare BenchmarkConsume with BenchmarkBareFetch.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func report(b *testing.B, before time.Duration) {
	b.Helper()
	b.ReportMetric(float64((cpu()-before).Nanoseconds())/float64(b.N), "cpu-ns/job")
}

// BenchmarkConsume is the whole way of a job through the consumer, with a taker that settles
// at once. BenchmarkBareFetch reads the same records without it.
func BenchmarkConsume(b *testing.B) {
	conn := filled(b, b.N)
	c, err := consumer.New(consumer.Options{Connection: conn, Group: "g", Topics: []string{"jobs"}, CreateTopics: true})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu()
	go func() { ended <- c.Run(ctx) }()
	seen := 0
	for d := range taken(c) {
		d.Done(consumer.Outcome{})
		if seen++; seen == b.N {
			break
		}
	}
	b.StopTimer()
	report(b, before)
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

func BenchmarkBareFetch(b *testing.B) {
	conn := filled(b, b.N)
	tr := &kafka.Transport{}
	defer tr.CloseIdleConnections()
	cl := &kafka.Client{Addr: kafka.TCP(conn.Brokers...), Transport: tr}
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu()
	seen := 0
	for p := range benchPartitions {
		seen += fetchAll(b, cl, p)
	}
	b.StopTimer()
	report(b, before)
	if seen != b.N {
		b.Fatalf("got %d records, want %d", seen, b.N)
	}
}

// fetchAll reads a partition to its end, copying nothing.
func fetchAll(b *testing.B, cl *kafka.Client, partition int) int {
	b.Helper()
	seen := 0
	for offset, end := int64(0), int64(1); offset < end; {
		res, err := cl.Fetch(b.Context(), &kafka.FetchRequest{
			Topic: "jobs", Partition: partition, Offset: offset, MinBytes: 0, MaxBytes: 256 << 10, MaxWait: time.Millisecond,
		})
		if err != nil {
			b.Fatal(err)
		}
		for end = res.HighWatermark; ; seen++ {
			rec, err := res.Records.ReadRecord()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			offset = rec.Offset + 1
		}
	}
	return seen
}
