package consumer_test

import (
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/consumer/deadletter"
	"dispatcher/internal/containers"

	"github.com/segmentio/kafka-go"
)

// A real broker hangs for 18 s, with a drain of 2 s. Each job that is to be tried again is on
// its retry topic once, and is called once. The derived topics have the settings of their
// source.
func TestAStalledBrokerReal(t *testing.T) {
	containers.Need(t)
	server := containers.Kafka(t)
	cl := &kafka.Client{Addr: kafka.TCP(server.Addr)}
	createReal(t, cl, "jobs", "max.message.bytes", "3000000")
	const jobs = 20
	conn := consumer.Connection{Brokers: []string{server.Addr}}
	p, err := consumer.NewProducer(consumer.ProducerOptions{Connection: conn})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WriteBatch(t.Context(), "jobs", numbered(0, jobs)); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	held := make(chan *consumer.Delivery, 10*jobs)
	end := runReal(t, consumer.Options{
		Connection: conn, Group: "g", Topics: []string{"jobs"}, CreateTopics: true, ParkUnknown: true,
		Order: consumer.OrderNone, RetryTopics: []time.Duration{time.Hour}, Session: 40 * time.Second, Drain: 2 * time.Second,
	}, func(d *consumer.Delivery) { held <- d })
	var all []*consumer.Delivery
	for range jobs {
		all = append(all, <-held)
	}
	later := func(d *consumer.Delivery) {
		d.RetryLater(time.Now().Add(2*time.Hour), deadletter.Failure{Class: deadletter.ClassUnavailable, Calls: 1, Failures: 1})
	}
	later(all[0]) // so that a record is in flight when the broker hangs
	server.Pause(t, true)
	for _, d := range all[1:] {
		go later(d)
	}
	time.Sleep(18 * time.Second)
	server.Pause(t, false)
	calls := jobs
	for deadline := time.After(60 * time.Second); lastOffset(t, cl, "g.jobs") < jobs; {
		select {
		case d := <-held:
			calls++
			go later(d)
		case <-time.After(100 * time.Millisecond):
		case <-deadline:
			t.Fatalf("after a minute: got offset %d committed, want %d", lastOffset(t, cl, "g.jobs"), jobs)
		}
	}
	end()
	ends, err := cl.ListOffsets(t.Context(), &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{"jobs.retry.1h": {kafka.LastOffsetOf(0)}}})
	if err != nil {
		t.Fatal(err)
	}
	got := ends.Topics["jobs.retry.1h"][0].LastOffset
	t.Logf("a stall of 18 s, a drain of 2 s: %d jobs, %d hand-outs, %d records in the retry topic", jobs, calls, got)
	if got != jobs || calls != jobs {
		t.Errorf("got %d records and %d hand-outs, want %d of each", got, calls, jobs)
	}
	checkDerivedTopicsReal(t, cl)
	refuseCompactedReal(t, cl, conn)
}

func createReal(t *testing.T, cl *kafka.Client, topic, setting, value string) {
	t.Helper()
	res, err := cl.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
		Topic: topic, NumPartitions: 1, ReplicationFactor: 1,
		ConfigEntries: []kafka.ConfigEntry{{ConfigName: setting, ConfigValue: value}},
	}}})
	if err != nil || res.Errors[topic] != nil {
		t.Fatal(err, res)
	}
}

func checkDerivedTopicsReal(t *testing.T, cl *kafka.Client) {
	t.Helper()
	w := &fleet{t: t, client: cl}
	for topic, retention := range map[string]string{"jobs.dlq": "-1", "jobs.parked": "-1", "jobs.retry.1h": "608400000"} {
		s := w.settings(topic, "max.message.bytes", "retention.ms", "retention.bytes", "cleanup.policy")
		t.Logf("%s: %v", topic, s)
		if s["max.message.bytes"] != "3000000" || s["retention.ms"] != retention || s["retention.bytes"] != "-1" || s["cleanup.policy"] != "delete" {
			t.Errorf("%s: got %v, want those of the source, retention.ms %s and cleanup.policy delete", topic, s, retention)
		}
	}
}

func refuseCompactedReal(t *testing.T, cl *kafka.Client, conn consumer.Connection) {
	t.Helper()
	createReal(t, cl, "compacted", "cleanup.policy", "compact")
	c, err := consumer.New(consumer.Options{Connection: conn, Group: "g", Topics: []string{"compacted"}, CreateTopics: true})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Run(t.Context())
	t.Logf("a compacted source: %v", err)
	if err == nil {
		t.Error("compacted source: got no error, want one")
	}
}

// lastOffset is the offset that a group has committed in the one partition of its topic.
func lastOffset(t *testing.T, cl *kafka.Client, group string) int64 {
	t.Helper()
	res, err := cl.OffsetFetch(t.Context(), &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{group[2:]: {0}}})
	if err != nil || res.Error != nil || len(res.Topics[group[2:]]) == 0 {
		return -1
	}
	return res.Topics[group[2:]][0].CommittedOffset
}
