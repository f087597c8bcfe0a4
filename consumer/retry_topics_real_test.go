package consumer_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/internal/containers"
	"dispatcher/job"

	"github.com/segmentio/kafka-go"
)

// On a real broker: retry topics that have just been created work at once, schedules are kept,
// and of jobs that fail now and then none is lost, while a node leaves and another one joins.
func TestRetryTopicsReal(t *testing.T) {
	containers.Need(t)
	addr := containers.Kafka(t).Addr
	cl := &kafka.Client{Addr: kafka.TCP(addr)}
	res, err := cl.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: "jobs", NumPartitions: 4, ReplicationFactor: 1}}})
	if err != nil || res.Errors["jobs"] != nil {
		t.Fatal(err, res)
	}
	const jobs = 1000
	conn := consumer.Connection{Brokers: []string{addr}}
	writeSchedules(t, conn, jobs)
	o := consumer.Options{
		Connection: conn, Group: "g", Topics: []string{"jobs"}, CreateTopics: true,
		Order: consumer.OrderNone, RetryTopics: []time.Duration{time.Second, 5 * time.Second}, Session: 9 * time.Second,
	}
	s := &tally{rnd: rand.New(rand.NewPCG(1, 1)), least: time.Second, done: map[string]int{}, dead: map[string]int{}}
	var worst time.Duration
	var mu sync.Mutex
	work := func(d *consumer.Delivery) {
		if at := d.Job.NotBefore; !at.IsZero() && d.Attempts().Calls == 0 {
			mu.Lock()
			worst = max(worst, time.Since(at))
			mu.Unlock()
			if time.Now().Before(at) {
				t.Errorf("got job %s %v early, want it at its time or later", d.Job.Value, time.Until(at))
			}
		}
		s.work(d)
	}
	endFirst := runReal(t, o, work)
	time.Sleep(6 * time.Second)
	endSecond := runReal(t, o, work)
	time.Sleep(6 * time.Second)
	endFirst()
	for deadline := time.Now().Add(2 * time.Minute); s.settled() < jobs && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	endSecond()
	for value, times := range s.done {
		if times != 1 || s.dead[value] != 0 {
			t.Errorf("got job %s done %d and dead %d times, want one of them once", value, times, s.dead[value])
		}
	}
	t.Logf("%d done, %d dead of %d; schedules kept to %v at worst, rebalances included", len(s.done), len(s.dead), jobs, worst.Round(time.Millisecond))
	if len(s.done)+len(s.dead) != jobs || len(s.dead) == 0 {
		t.Errorf("got %d done and %d dead, want %d and some", len(s.done), len(s.dead), jobs)
	}
}

// writeSchedules writes jobs, a third of them due within 20 s from now.
func writeSchedules(t *testing.T, conn consumer.Connection, jobs int) {
	t.Helper()
	p, err := consumer.NewProducer(consumer.ProducerOptions{Connection: conn})
	if err != nil {
		t.Fatal(err)
	}
	records := make([]job.Record, jobs)
	for i := range records {
		records[i] = job.Record{Key: []byte(strconv.Itoa(i % 50)), Value: []byte(strconv.Itoa(i))}
		if i%3 == 0 {
			records[i] = scheduled(strconv.Itoa(i), time.Now().Add(time.Duration(5_000+rand.IntN(15_000))*time.Millisecond))
		}
	}
	if err := p.WriteBatch(t.Context(), "jobs", records); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// runReal runs a consumer until the function that is returned is called.
func runReal(t *testing.T, o consumer.Options, work func(*consumer.Delivery)) (end func()) {
	t.Helper()
	c, err := consumer.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	go func() {
		for d := range taken(c) {
			work(d)
		}
	}()
	return func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
