package consumer_test

import (
	"strings"
	"testing"

	"dispatcher/consumer"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// exceptZero settles all jobs but the first of the log, which it releases at the end.
func exceptZero(d *consumer.Delivery) {
	if d.Job.Offset == 0 {
		releasedLater(d)
		return
	}
	d.Done(consumer.Outcome{})
}

// Retention deletes a stuck job. The jobs that were complete behind it are not repeated.
func TestRetentionDeletesAStuckJob(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"while it is away": false, "after the offsets were read": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, 1, func(w *fleet) {
				w.produce("jobs", numbered(0, 10)...)
				n := w.start(w.options(), exceptZero)
				w.until("all seen", func() bool { return len(n.values()) == 10 })
				w.ok(n.end())
				if !late {
					w.ok(w.cluster.DeleteRecords("jobs", 0, 3))
				}
				fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "jobs", Err: kerr.NotLeaderForPartition, Count: -1})
				w.produce("jobs", numbered(10, 13)...)
				next := w.start(w.options(), settled)
				w.until("it is joined", func() bool { return next.c.Status().Joined })
				if late {
					w.ok(w.cluster.DeleteRecords("jobs", 0, 3))
				}
				fault.Remove()
				w.waitFor("jobs", 0, 13)
				w.ok(next.end())
				if got := strings.Join(next.values(), " "); got != "10 11 12" {
					t.Errorf("got %q handed out, want 10 11 12", got)
				}
			})
		})
	}
}

// Records that retention deleted before they were fetched are skipped.
func TestDeletedRecordsAreSkipped(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "jobs", Err: kerr.NotLeaderForPartition, Count: -1})
		n := w.start(w.options(), settled)
		w.waitFor("jobs", 0, 0)
		w.produce("jobs", numbered(0, 10)...)
		w.ok(w.cluster.DeleteRecords("jobs", 0, 4))
		fault.Remove()
		w.waitFor("jobs", 0, 10)
		w.ok(n.end())
		if diff := cmp.Diff([]string{"4", "5", "6", "7", "8", "9"}, n.values()); diff != "" {
			t.Errorf("handed out (-want +got):\n%s", diff)
		}
	})
}

// A log that ends before the next offset is another one: the member joins again and reads all
// of it.
func TestAShorterLogIsReadFromItsBeginning(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 10)...)
		n := w.start(w.options(), settled)
		w.waitFor("jobs", 0, 10)
		fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "jobs", Err: kerr.NotLeaderForPartition, Count: -1})
		w.ok(w.cluster.DeleteTopic("jobs"))
		w.ok(w.cluster.CreateTopic("jobs", 1, nil))
		w.produce("jobs", numbered(100, 103)...)
		fault.Remove()
		w.until("the new ones are seen", func() bool { return len(n.values()) == 13 })
		w.waitFor("jobs", 0, 3)
		w.ok(n.end())
		if diff := cmp.Diff([]string{"100", "101", "102"}, n.values()[10:]); diff != "" {
			t.Errorf("handed out (-want +got):\n%s", diff)
		}
	})
}

// Each choice of out_of_range, with the records deleted while the node is away and while it
// fetches.
func TestOutOfRange(t *testing.T) {
	t.Parallel()
	for policy, want := range map[consumer.OutOfRange]string{
		consumer.RangeEarliest: "6 7 8 9 10", consumer.RangeLatest: "10", consumer.RangeStop: "",
	} {
		for name, away := range map[string]bool{"while it is away": true, "while it fetches": false} {
			t.Run(string(policy)+" "+name, func(t *testing.T) {
				t.Parallel()
				bubble(t, 1, func(w *fleet) { w.outOfRange(policy, want, away) })
			})
		}
	}
}

func (w *fleet) outOfRange(policy consumer.OutOfRange, want string, away bool) {
	w.t.Helper()
	o := w.options()
	o.OutOfRange = policy
	w.produce("jobs", numbered(0, 2)...)
	first := w.start(o, settled)
	w.waitFor("jobs", 0, 2)
	w.ok(first.end())
	w.produce("jobs", numbered(2, 10)...)
	if away {
		w.ok(w.cluster.DeleteRecords("jobs", 0, 6))
	}
	fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "jobs", Err: kerr.NotLeaderForPartition, Count: -1})
	next := w.start(o, settled)
	if policy != consumer.RangeStop || !away {
		w.until("it is joined", func() bool { return next.c.Status().Joined })
	}
	if !away {
		w.ok(w.cluster.DeleteRecords("jobs", 0, 6))
	}
	fault.Remove()
	if policy == consumer.RangeStop {
		if err := <-next.err; err == nil || !strings.Contains(err.Error(), "offset 2 is outside of the log from 6 to 10") {
			w.t.Errorf("got error %v, want that offset 2 is outside of the log from 6 to 10", err)
		}
	} else {
		w.waitFor("jobs", 0, 10)
		w.produce("jobs", numbered(10, 11)...)
		w.waitFor("jobs", 0, 11)
		w.ok(next.end())
	}
	if got := strings.Join(next.values(), " "); got != want {
		w.t.Errorf("got %q handed out, want %q", got, want)
	}
}

// configure changes a setting of a topic.
func (w *fleet) configure(topic, name, value string) {
	w.t.Helper()
	res, err := w.client.IncrementalAlterConfigs(w.t.Context(), &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
		Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet}},
	}}})
	w.ok(err)
	w.ok(res.Resources[0].Error)
}
