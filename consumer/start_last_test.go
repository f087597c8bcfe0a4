package consumer_test

import (
	"testing"

	"dispatcher/consumer"
	"dispatcher/job"

	"github.com/segmentio/kafka-go"
)

func TestStartLast(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 10)...)
		o := w.options()
		o.StartAt = consumer.StartLast
		n := w.start(o, settled)
		w.until("the offset is committed", func() bool { offset, _ := w.committed("jobs", 0); return offset == 10 })
		w.produce("jobs", numbered(10, 12)...)
		w.until("both seen", func() bool { return len(n.values()) == 2 })
		w.ok(n.end())
	})
}

// start_at: last is for a new group. In a partition that is added later, the group begins with
// the first record.
func TestStartLastInAnAddedPartition(t *testing.T) {
	t.Parallel()
	bubble(t, 2, func(w *fleet) {
		w.commit("jobs", 0, 0, "")
		w.produce("jobs", job.Record{Key: []byte(keysOf(1, 2, 1)[0]), Value: []byte("early")})
		o := w.options()
		o.StartAt = consumer.StartLast
		n := w.start(o, settled)
		w.waitFor("jobs", 1, 1)
		w.ok(n.end())
		if got := n.values(); len(got) != 1 {
			t.Errorf("got %v handed out, want the early job", got)
		}
	})
}

// In the first generation of a group, start_at: last holds for all members, even after one of
// them has committed.
func TestStartLastWithTwoMembers(t *testing.T) {
	t.Parallel()
	bubble(t, 2, func(w *fleet) {
		w.produce("jobs", job.Record{Key: []byte(keysOf(0, 2, 1)[0])}, job.Record{Key: []byte(keysOf(1, 2, 1)[0])})
		o := w.options()
		o.StartAt = consumer.StartLast
		a, b := w.start(o, settled), w.start(o, settled)
		w.waitFor("jobs", 0, 1)
		w.waitFor("jobs", 1, 1)
		w.ok(a.end())
		w.ok(b.end())
		if got, also := a.values(), b.values(); len(got)+len(also) != 0 {
			t.Errorf("got %d and %d old jobs handed out, want none", len(got), len(also))
		}
	})
}

// A standby joins a new group and commits nothing. In partitions that are added weeks later it
// begins with the first record, as the other members do.
func TestAStandbyBeginsAddedPartitionsWithTheirFirstRecord(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.withStandby()
		res, err := w.client.CreatePartitions(w.t.Context(), &kafka.CreatePartitionsRequest{
			Topics: []kafka.TopicPartitionsConfig{{Name: "jobs", Count: 4}},
		})
		w.ok(err)
		w.ok(res.Errors["jobs"])
		for p := 1; p < 4; p++ {
			w.produce("jobs", keyed(keysOf(p, 4, 1)[0], "early"))
		}
		for p := 1; p < 4; p++ {
			w.waitFor("jobs", p, 1)
		}
		if got, also := w.nodes[0].values(), w.nodes[1].values(); len(got)+len(also) != 3 {
			t.Errorf("got %d and %d jobs handed out, want all 3 that were written before a member noticed their partitions", len(got), len(also))
		}
	})
}

// The topic is recreated while a standby of its new group has committed nothing. The member
// with the partition is gone. The standby begins with the first record of the new topic.
func TestAStandbyBeginsARecreatedTopicWithItsFirstRecord(t *testing.T) {
	t.Parallel()
	for range 8 { // a standby that had the partition for a moment knows that the group has committed; which one it is comes by chance
		bubble(t, 1, func(w *fleet) {
			owner, standby := w.withStandby()
			owner.cut(true)
			w.recreate(1, 50)
			w.until("all jobs of the new topic are seen", func() bool { return len(newJobs(standby.values())) == 50 })
		})
	}
}

// withStandby starts two nodes of a new group with start_at: last. It returns the network of
// the node that has the partition, and the node that waits for one.
func (w *fleet) withStandby() (owner *wires, standby *node) {
	w.t.Helper()
	nets := []*wires{{dial: w.net.DialContext}, {dial: w.net.DialContext}}
	for _, net := range nets {
		o := w.options()
		o.StartAt, o.Dial = consumer.StartLast, net.connect
		w.start(o, settled)
	}
	one, two := w.nodes[0], w.nodes[1]
	w.until("both have joined", func() bool { return one.c.Status().Joined && two.c.Status().Joined })
	w.waitFor("jobs", 0, 0)
	if one.parts() == 1 {
		return nets[0], two
	}
	return nets[1], one
}
