package consumer_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/job"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// recreate deletes the topic and creates it again, with some new records.
func (w *fleet) recreate(partitions, records int) {
	w.t.Helper()
	deleted, err := w.client.DeleteTopics(w.t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{"jobs"}})
	w.ok(err)
	w.ok(deleted.Errors["jobs"])
	made, err := w.client.CreateTopics(w.t.Context(), &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: "jobs", NumPartitions: partitions, ReplicationFactor: 1}},
	})
	w.ok(err)
	w.ok(made.Errors["jobs"])
	var all []job.Record
	for i := range records {
		all = append(all, job.Record{Value: []byte("new " + strconv.Itoa(i))})
	}
	w.produce("jobs", all...)
}

// A topic that is recreated at once, with more records than the node has read, looks like the
// old one. All of its jobs are handed out.
func TestARecreatedTopicIsReadFromItsBeginning(t *testing.T) {
	t.Parallel()
	for name, worked := range map[string]bool{"while jobs are worked": true, "while no worker takes jobs": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, 1, func(w *fleet) {
				w.produce("jobs", numbered(0, 20)...)
				n := w.start(w.options(), settled)
				w.waitFor("jobs", 0, 20)
				if !worked {
					w.ok(n.end())
					n = w.start(w.options(), nil)
					w.produce("jobs", numbered(20, 400)...)
					held := n.holding(256)
					w.recreate(1, 500)
					for _, d := range held {
						d.Done(consumer.Outcome{})
					}
				} else {
					w.recreate(1, 50)
				}
				want := map[bool]int{true: 50, false: 500}[worked]
				w.until("all of the new topic is handed out", func() bool {
					for _, d := range n.grab() {
						d.Done(consumer.Outcome{})
					}
					return len(newJobs(n.values())) == want
				})
				w.ok(n.end())
			})
		})
	}
}

// newJobs returns the jobs of the recreated topic, each once.
func newJobs(values []string) []string {
	values = slices.DeleteFunc(values, func(v string) bool { return !strings.HasPrefix(v, "new ") })
	slices.Sort(values)
	return slices.Compact(values)
}

// With out_of_range: stop, a recreated topic ends the node with an error.
func TestARecreatedTopicStopsTheNode(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		o := w.options()
		o.OutOfRange = consumer.RangeStop
		w.produce("jobs", numbered(0, 20)...)
		n := w.start(o, settled)
		w.waitFor("jobs", 0, 20)
		time.Sleep(2 * time.Second)
		w.recreate(1, 50)
		w.until("the node ends", func() bool {
			select {
			case <-n.over:
				return true
			default:
				return false
			}
		})
		if err := <-n.err; err == nil || !strings.Contains(err.Error(), "created again") {
			t.Errorf("got error %v, want that the topic is another one", err)
		}
	})
}

// A node waits for a topic that is missing for long, without joining the group all the time.
func TestANodeWaitsForAMissingTopic(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 20)...)
		n := w.start(w.options(), settled)
		w.waitFor("jobs", 0, 20)
		deleted, err := w.client.DeleteTopics(w.t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{"jobs"}})
		w.ok(err)
		w.ok(deleted.Errors["jobs"])
		var joins atomic.Int64
		w.cluster.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			if joins.Add(1) > 1000 {
				panic("the group is joined all the time")
			}
			return nil, nil, false
		})
		time.Sleep(3 * time.Minute)
		t.Logf("%d joins in three minutes", joins.Load())
		if n.c.Status().Ready() == nil {
			t.Error("got ready nil while the topic is missing, want an error")
		}
		made, err := w.client.CreateTopics(w.t.Context(), &kafka.CreateTopicsRequest{
			Topics: []kafka.TopicConfig{{Topic: "jobs", NumPartitions: 1, ReplicationFactor: 1}},
		})
		w.ok(err)
		w.ok(made.Errors["jobs"])
		var all []job.Record
		for i := range 50 {
			all = append(all, job.Record{Value: []byte("new " + strconv.Itoa(i))})
		}
		w.produce("jobs", all...)
		w.until("all of the new topic is handed out", func() bool { return len(newJobs(n.values())) == 50 })
		w.ok(n.end())
	})
}

// All jobs of a recreated topic with fewer partitions are handed out, even those before an
// offset that was committed meanwhile.
func TestARecreatedTopicWithFewerPartitionsIsReadFromItsBeginning(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{2, 1} {
		t.Run(strconv.Itoa(partitions), func(t *testing.T) {
			t.Parallel()
			bubble(t, 3, func(w *fleet) {
				w.produce("jobs", numbered(0, 300)...)
				n := w.start(w.options(), done)
				w.until("the old ones are done", func() bool { return len(n.values()) == 300 })
				w.recreate(partitions, 500)
				w.until("all of the new topic is handed out", func() bool { return len(newJobs(n.values())) == 500 })
				w.ok(n.end())
			})
		})
	}
}

// A recreated topic without leaders yet is not read from an offset of the old topic.
func TestARecreatedTopicIsNotReadBeforeItsOffsetsAreReset(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 300)...)
		n := w.start(w.options(), done)
		w.waitFor("jobs", 0, 300)
		refused := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "jobs", Err: kerr.LeaderNotAvailable, Count: -1})
		w.recreate(1, 500)
		time.Sleep(8 * time.Second)
		refused.Remove()
		w.until("all of the new topic is handed out", func() bool { return len(newJobs(n.values())) == 500 })
		w.ok(n.end())
	})
}

// With out_of_range: stop, a recreated topic ends a node even while the node leaves its groups.
func TestARecreatedTopicStopsANodeThatLeavesItsGroups(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		o := w.options()
		o.OutOfRange = consumer.RangeStop
		w.produce("jobs", numbered(0, 20)...)
		n := w.start(o, done)
		w.waitFor("jobs", 0, 20)
		time.Sleep(2300 * time.Millisecond) // between two checks of the topic
		w.recreate(1, 50)
		n.c.LeaveGroups(errors.New("no workers"))
		w.until("it has ended", func() bool {
			select {
			case <-n.over:
				return true
			default:
				return false
			}
		})
		if err := <-n.err; err == nil || !strings.Contains(err.Error(), "out_of_range is stop") {
			t.Errorf("got error %v, want that the topic is another one and out_of_range is stop", err)
		}
	})
}
