package consumer_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/job"
)

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*consumer.Options)
		want   []string // parts of the error: the field, the value, what to do
	}{
		"no brokers":        {func(o *consumer.Options) { o.Brokers = nil }, []string{"brokers", "[]"}},
		"no port":           {func(o *consumer.Options) { o.Brokers = []string{"kafka"} }, []string{"brokers", `"kafka"`}},
		"bad port":          {func(o *consumer.Options) { o.Brokers = []string{"kafka:0"} }, []string{"brokers", `"kafka:0"`}},
		"no group":          {func(o *consumer.Options) { o.Group = "" }, []string{"group", `""`}},
		"no topics":         {func(o *consumer.Options) { o.Topics = nil }, []string{"topics", "[]"}},
		"bad topic":         {func(o *consumer.Options) { o.Topics = []string{"a b"} }, []string{"topics", `"a b"`}},
		"twice":             {func(o *consumer.Options) { o.Topics = []string{"a", "a"} }, []string{"topics", `"a"`, "twice"}},
		"topics and lanes":  {func(o *consumer.Options) { o.Lanes = []consumer.Lane{{Name: "l", Topics: []string{"u"}}} }, []string{"topics", "[t]", "lanes"}},
		"lane without name": {func(o *consumer.Options) { *o = inLanes(*o, consumer.Lane{Topics: []string{"u"}}) }, []string{"lanes.0.name", `""`}},
		"lane of nothing":   {func(o *consumer.Options) { *o = inLanes(*o, consumer.Lane{Name: "l"}) }, []string{"lanes.0.topics", "[]"}},
		"min_share": {func(o *consumer.Options) {
			*o = inLanes(*o, consumer.Lane{Name: "l", Topics: []string{"u"}, MinShare: 1})
		}, []string{"lanes.0.min_share", "1"}},
		"fair": {func(o *consumer.Options) {
			*o = inLanes(*o, consumer.Lane{Name: "l", Topics: []string{"u"}, Fair: "job.tenant"})
		}, []string{"lanes.0.fair", `"job.tenant"`}},
		"fair by partition": {func(o *consumer.Options) {
			*o = inLanes(*o, consumer.Lane{Name: "l", Topics: []string{"u"}, Fair: `job.headers["tenant"]`})
			o.Order = consumer.OrderPartition
		}, []string{"lanes.0.fair", "kafka.order: partition"}},
		"topic in two lanes": {func(o *consumer.Options) {
			*o = inLanes(*o, consumer.Lane{Name: "l", Topics: []string{"u"}}, consumer.Lane{Name: "m", Topics: []string{"u"}})
		}, []string{"topics", `"u"`, "twice"}},
		"start":             {func(o *consumer.Options) { o.StartAt = "middle" }, []string{"start_at", `"middle"`}},
		"in flight":         {func(o *consumer.Options) { o.Workers = -1 }, []string{"workers", "-1"}},
		"job bytes":         {func(o *consumer.Options) { o.MaxJobBytes = 1 << 30 }, []string{"max_job_bytes", "1073741824"}},
		"batch bytes":       {func(o *consumer.Options) { o.MaxBatchBytes = 1 << 20 }, []string{"max_batch_bytes", "1048576"}},
		"batch of one job":  {func(o *consumer.Options) { o.MaxJobBytes, o.MaxBatchBytes = 8<<20, 8<<20 }, []string{"max_batch_bytes", "8388608", "at least 8454144"}},
		"commit interval":   {func(o *consumer.Options) { o.CommitInterval = time.Microsecond }, []string{"commit_interval", "1µs"}},
		"slow heartbeat":    {func(o *consumer.Options) { o.Heartbeat = 2 * time.Second }, []string{"heartbeat", "2s", "at most 1s"}},
		"heartbeat session": {func(o *consumer.Options) { o.Session, o.Drain = time.Second, time.Millisecond }, []string{"heartbeat", "raise kafka.session"}},
		"drain":             {func(o *consumer.Options) { o.Drain = 9 * time.Second }, []string{"drain", "9s", "raise kafka.session above 10s"}},
		"mechanism": {func(o *consumer.Options) {
			o.SASL = &consumer.SASL{Mechanism: "md5", Login: consumer.FixedLogin("u", "hush")}
		}, []string{"sasl.mechanism", `"md5"`}},
		"no login": {func(o *consumer.Options) { o.SASL = &consumer.SASL{Mechanism: "plain"} }, []string{"sasl.login", "plain"}},
		"no token": {func(o *consumer.Options) { o.SASL = &consumer.SASL{Mechanism: "oauthbearer"} }, []string{"sasl.token", "oauthbearer"}},
		"extension": {func(o *consumer.Options) {
			token := func(context.Context) (string, error) { return "t", nil }
			o.SASL = &consumer.SASL{Mechanism: "oauthbearer", Token: token, Extensions: map[string]string{"auth": "x", "a b": "x", "ok": "hush\x01"}}
		}, []string{`"auth"`, `"a b"`, "sasl.extensions: ok: the value"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := consumer.Options{Connection: consumer.Connection{Brokers: []string{"a:1"}}, Group: "g", Topics: []string{"t"}}
			if _, err := consumer.New(o); err != nil {
				t.Fatalf("before the change: got %v, want nil", err)
			}
			c.change(&o)
			_, err := consumer.New(o)
			if err == nil {
				t.Fatalf("got no error, want one with %v", c.want)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %q, want it to hold %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "hush") {
				t.Errorf("got %v, want it without the password", err)
			}
		})
	}
}

func TestSASLHidesThePassword(t *testing.T) {
	t.Parallel()
	s := consumer.SASL{Mechanism: "plain", Login: consumer.FixedLogin("u", "hush")}
	if strings.Contains(s.String()+s.GoString(), "hush") {
		t.Errorf("got %s and %#v, want no password", s, s)
	}
}

func TestProducerNamesAMissingTopic(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		p, err := consumer.NewProducer(consumer.ProducerOptions{Connection: w.options().Connection})
		w.ok(err)
		defer func() { w.ok(p.Close()) }()
		err = p.WriteBatch(w.t.Context(), "jbos", []job.Record{{Value: []byte("x")}})
		if err == nil || !strings.Contains(err.Error(), "jbos") {
			t.Errorf("got %v, want an error that names jbos", err)
		}
		if err := p.WriteBatch(w.t.Context(), "a b", nil); err == nil || !strings.Contains(err.Error(), "a b") {
			t.Errorf("got %v, want an error that names the topic", err)
		}
	})
}

// What a Java client with the same keys would choose, so that both may write.
func TestProducerPartitionsByKey(t *testing.T) {
	t.Parallel()
	bubble(t, 4, func(w *fleet) {
		var records []job.Record
		for p := range 4 {
			for _, key := range keysOf(p, 4, 3) {
				records = append(records, job.Record{Key: []byte(key), Value: []byte{byte('0' + p)}})
			}
		}
		w.produce("jobs", records...)
		n := w.start(w.options(), nil)
		for _, d := range n.holding(12) {
			if got, want := d.Job.Partition, int(d.Job.Value[0]-'0'); got != want {
				t.Errorf("key %s: got partition %d, want %d", d.Job.Key, got, want)
			}
			d.Done(consumer.Outcome{})
		}
		w.ok(n.end())
	})
}
