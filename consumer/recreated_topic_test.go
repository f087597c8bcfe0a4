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

// anew deletes the topic and makes it again, with so many records named new.
func (w *fleet) anew(partitions, records int) {
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

// A topic that is made anew at once and grows beyond the offset that was
// reached looks like the old one. All of its jobs are handed out all the same.
func TestATopicMadeAnewUnderANodeIsReadFromItsBeginning(t *testing.T) {
	t.Parallel()
	for name, worked := range map[string]bool{"while jobs are worked": true, "while nobody takes any": false} {
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
					w.anew(1, 500)
					for _, d := range held {
						d.Done(consumer.Outcome{})
					}
				} else {
					w.anew(1, 50)
				}
				want := map[bool]int{true: 50, false: 500}[worked]
				w.until("all of the new topic is handed out", func() bool {
					for _, d := range n.grab() {
						d.Done(consumer.Outcome{})
					}
					return len(news(n.values())) == want
				})
				w.ok(n.end())
			})
		})
	}
}

func news(values []string) []string {
	values = slices.DeleteFunc(values, func(v string) bool { return !strings.HasPrefix(v, "new ") })
	slices.Sort(values)
	return slices.Compact(values)
}

// Whoever would rather stop than begin anew is told why.
func TestATopicMadeAnewStopsWhoAsksForThat(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		o := w.options()
		o.OutOfRange = consumer.RangeStop
		w.produce("jobs", numbered(0, 20)...)
		n := w.start(o, settled)
		w.waitFor("jobs", 0, 20)
		time.Sleep(2 * time.Second)
		w.anew(1, 50)
		w.until("the node ends", func() bool {
			select {
			case <-n.over:
				return true
			default:
				return false
			}
		})
		if err := <-n.err; err == nil || !strings.Contains(err.Error(), "created again") {
			t.Errorf("got %v, want an end that says that the topic was created again", err)
		}
	})
}

// A topic that stays away is asked for now and then, and worked once it is back.
func TestATopicThatIsGoneForLongIsWaitedFor(t *testing.T) {
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
		w.until("all of the new topic is handed out", func() bool { return len(news(n.values())) == 50 })
		w.ok(n.end())
	})
}

// Where the new topic has fewer partitions than the old one, all of its jobs are
// handed out, also those that lie before what was committed meanwhile.
func TestATopicMadeAnewSmallerIsReadFromItsBeginning(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{2, 1} {
		t.Run(strconv.Itoa(partitions), func(t *testing.T) {
			t.Parallel()
			bubble(t, 3, func(w *fleet) {
				w.produce("jobs", numbered(0, 300)...)
				n := w.start(w.options(), done)
				w.until("the old ones are done", func() bool { return len(n.values()) == 300 })
				w.anew(partitions, 500)
				w.until("all of the new topic is handed out", func() bool { return len(news(n.values())) == 500 })
				w.ok(n.end())
			})
		})
	}
}

// A topic whose leaders take their time is not worked from an offset of the old
// one meanwhile.
func TestATopicMadeAnewIsNotWorkedBeforeItsOffsetsAreSet(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 300)...)
		n := w.start(w.options(), done)
		w.waitFor("jobs", 0, 300)
		refused := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "jobs", Err: kerr.LeaderNotAvailable, Count: -1})
		w.anew(1, 500)
		time.Sleep(8 * time.Second)
		refused.Remove()
		w.until("all of the new topic is handed out", func() bool { return len(news(n.values())) == 500 })
		w.ok(n.end())
	})
}

// That a node is to stop is not forgotten because it stands aside just then.
func TestAStopForATopicMadeAnewOutlastsStandingAside(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		o := w.options()
		o.OutOfRange = consumer.RangeStop
		w.produce("jobs", numbered(0, 20)...)
		n := w.start(o, done)
		w.waitFor("jobs", 0, 20)
		time.Sleep(2300 * time.Millisecond) // between two looks at the topic
		w.anew(1, 50)
		n.c.LeaveGroups(errors.New("no hands"))
		w.until("it has ended", func() bool {
			select {
			case <-n.over:
				return true
			default:
				return false
			}
		})
		if err := <-n.err; err == nil || !strings.Contains(err.Error(), "out_of_range is stop") {
			t.Errorf("got %v, want that the topic is another one", err)
		}
	})
}
