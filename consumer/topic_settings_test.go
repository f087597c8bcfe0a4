package consumer_test

import (
	"bytes"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/consumer/deadletter"
	"dispatcher/job"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go"
)

// settings returns some settings of a topic.
func (w *fleet) settings(topic string, names ...string) map[string]string {
	w.t.Helper()
	res, err := w.client.DescribeConfigs(w.t.Context(), &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: names}},
	})
	w.ok(err)
	w.ok(res.Resources[0].Error)
	got := map[string]string{}
	for _, e := range res.Resources[0].ConfigEntries {
		got[e.ConfigName] = e.ConfigValue
	}
	return got
}

// Derived topics accept records as large as their source does. They keep open letters for ever.
// They keep a job on a retry topic for its delay plus the retention of the source, at least a week.
func TestDerivedTopicsCopyTheirSource(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		source map[string]string
		retry  string
	}{
		"kept for a month": {map[string]string{"max.message.bytes": "5000000", "min.insync.replicas": "1", "retention.ms": "2592000000"}, "2592005000"},
		"kept for a day":   {map[string]string{"max.message.bytes": "5000000", "min.insync.replicas": "1", "retention.ms": "86400000"}, "604805000"},
		"kept for ever":    {map[string]string{"max.message.bytes": "5000000", "min.insync.replicas": "1", "retention.ms": "-1"}, "-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, 1, func(w *fleet) {
				for k, v := range c.source {
					w.configure("jobs", k, v)
				}
				o := w.withResults()
				o.ParkUnknown, o.RetryTopics = true, []time.Duration{5 * time.Second}
				n := w.idle(o)
				w.until("joined", func() bool { return n.c.Status().Joined })
				w.ok(n.end())
				names := []string{"max.message.bytes", "retention.ms", "retention.bytes", "cleanup.policy"}
				letters := map[string]string{"max.message.bytes": "5000000", "retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
				for topic, want := range map[string]map[string]string{
					"jobs.dlq": letters, "jobs.parked": letters,
					"jobs.retry.5s": {"max.message.bytes": "5000000", "retention.ms": c.retry, "retention.bytes": "-1", "cleanup.policy": "delete"},
				} {
					if diff := cmp.Diff(want, w.settings(topic, names...)); diff != "" {
						t.Errorf("%s (-want +got):\n%s", topic, diff)
					}
				}
				if got := w.settings("jobs.results", "max.message.bytes")["max.message.bytes"]; got != "5000000" {
					t.Errorf("jobs.results: got max.message.bytes %s, want 5000000", got)
				}
			})
		})
	}
}

// Compaction deletes jobs, so a node reads no compacted topic.
func TestCompactedSourcesAreRefused(t *testing.T) {
	t.Parallel()
	for _, topic := range []string{"jobs", "jobs.retry.5s"} {
		t.Run(topic, func(t *testing.T) {
			t.Parallel()
			bubble(t, 1, func(w *fleet) {
				w.configure(topic, "cleanup.policy", "delete,compact")
				o := w.options()
				o.RetryTopics = []time.Duration{5 * time.Second}
				n := w.idle(o)
				var err error
				w.until("it has ended", func() bool {
					select {
					case err = <-n.err:
						return true
					default:
						return false
					}
				})
				for _, want := range []string{topic + ":", "cleanup.policy=delete,compact", "--entity-name " + topic + " --add-config cleanup.policy=delete"} {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("got error %v, want %q in it", err, want)
					}
				}
			}, "jobs", "jobs.retry.5s")
		})
	}
}

// A node warns once of a derived topic that would refuse or lose records, with the command that
// corrects it. It does not warn of other topics.
func TestWrongSettingsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.configure("jobs", "max.message.bytes", "5000000")
		w.configure("jobs.dlq", "retention.ms", "604800000")
		w.configure("jobs.dlq", "max.message.bytes", "5000000")
		w.configure("jobs.retry.1h", "max.message.bytes", "5000000")
		w.configure("jobs.retry.1h", "retention.ms", "3600000")
		w.configure("more.dlq", "retention.ms", "-1")
		var log bytes.Buffer
		o := w.options()
		o.Topics, o.RetryTopics = []string{"jobs", "more"}, []time.Duration{5 * time.Second, time.Hour}
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		n := w.idle(o)
		w.until("joined", func() bool { return n.c.Status().Joined })
		w.ok(n.end())
		var got []string
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "derived topic may cut or lose") {
				_, about, _ := strings.Cut(line, "topic=")
				topic, rest, _ := strings.Cut(about, " setting=")
				setting, rest, _ := strings.Cut(rest, " value=")
				value, rest, _ := strings.Cut(rest, " mend=")
				_, add, _ := strings.Cut(rest, "--add-config ")
				got = append(got, topic+" "+setting+" "+value+" "+strings.Trim(add, "\"\n"))
			}
		}
		want := []string{
			"jobs.dlq retention.ms 604800000 retention.ms=-1",
			"jobs.retry.1h retention.ms 3600000 retention.ms=608400000",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("warnings (-want +got):\n%s", diff)
		}
	}, "jobs", "jobs.dlq", "jobs.retry.1h", "more", "more.dlq")
}

// A job that does not fit its retry topic is written neither there nor to the dead letters: its
// worker waits and settles it.
func TestAJobTooLargeForItsRetryTopicIsTriedInPlace(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		o := w.options()
		o.Order, o.RetryTopics = consumer.OrderNone, []time.Duration{5 * time.Second}
		w.refuse("jobs.retry.5s", 4000)
		w.produce("jobs", job.Record{Value: noise('x', 5000)}, job.Record{Value: []byte("small")})
		n := w.start(o, func(d *consumer.Delivery) {
			if d.Attempts().Calls == 0 && d.RetryLater(time.Now().Add(6*time.Second), deadletter.Failure{Class: deadletter.ClassUnavailable, Calls: 1, Failures: 1}) {
				return
			}
			time.Sleep(6 * time.Second)
			d.Done(consumer.Outcome{})
		})
		w.waitFor("jobs", 0, 2)
		w.waitFor("jobs.retry.5s", 0, 1)
		w.ok(n.end())
		if got := w.records("jobs.retry.5s"); len(got) != 1 || string(got[0].Value) != "small" || len(w.letters("jobs")) != 0 {
			t.Errorf("got %d records in the retry topic and %d letters, want the small one and none", len(got), len(w.letters("jobs")))
		}
	})
}

// A job that is not due yet and does not fit its retry topic waits in memory, if its delay is
// short.
func TestAScheduledJobTooLargeForItsRetryTopicWaitsInMemory(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		due := time.Now().Add(50 * time.Second)
		w.refuse("jobs.retry.5s", 4000)
		n := w.start(withRetryTopics(w.options(), consumer.OrderKey, 5*time.Second), func(d *consumer.Delivery) {
			if time.Now().Before(due) {
				t.Errorf("handed out %v early", time.Until(due))
			}
			d.Done(consumer.Outcome{})
		})
		w.produce("jobs", scheduled(string(noise('x', 5000)), due))
		w.within(2*time.Minute, "it is done", func() bool { got, _ := w.committed("jobs", 0); return got == 1 })
		w.ok(n.end())
		if len(n.values()) != 1 || len(w.letters("jobs")) != 0 || len(w.records("jobs.retry.5s")) != 0 {
			t.Errorf("got %d hand-outs and %d letters, want 1 and none", len(n.values()), len(w.letters("jobs")))
		}
	})
}

// A retry topic keeps a job for its delay more than the job's topic does: that is no reason to keep offsets for longer.
func TestRetentionsOfTheTopicsThatAreRead(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.configure("jobs", "retention.ms", "2592000000")
		o := w.options()
		o.RetryTopics = []time.Duration{5 * time.Second}
		const month = 30 * 24 * time.Hour
		expect := func(want map[string]time.Duration) {
			w.t.Helper()
			offsets, records, err := consumer.Retentions(w.t.Context(), o.Connection, o)
			if err != nil || offsets != 7*24*time.Hour || !maps.Equal(records, want) {
				w.t.Errorf("got %v, %v and error %v, want a week and %v", offsets, records, err, want)
			}
		}
		expect(map[string]time.Duration{"jobs": month})
		n := w.idle(o)
		w.until("joined", func() bool { return n.c.Status().Joined })
		w.ok(n.end())
		expect(map[string]time.Duration{"jobs": month, "jobs.retry.5s": month})
	})
}
