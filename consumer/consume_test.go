package consumer_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/consumer"
	"dispatcher/consumer/deadletter"
	"dispatcher/job"

	"github.com/prometheus/client_golang/prometheus"
)

func TestConsumesEverythingOnce(t *testing.T) {
	t.Parallel()
	bubble(t, 4, func(w *fleet) {
		w.produce("jobs", numbered(0, 5000)...)
		n := w.start(w.options(), settled)
		w.until("all seen", func() bool { return len(n.values()) >= 5000 })
		if err := n.end(); err != nil {
			t.Errorf("got %v from Run, want nil", err)
		}
		if set, repeats := sortedSet(n.values()); len(set) != 5000 || repeats != 0 {
			t.Errorf("got %d jobs and %d repeats, want 5000 and 0", len(set), repeats)
		}
		total := int64(0)
		for p := range 4 {
			offset, _ := w.committed("jobs", p)
			total += offset
		}
		if total != 5000 {
			t.Errorf("got %d offsets committed, want 5000", total)
		}
	})
}

func TestMissingTopicIsNamed(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		o := w.options()
		o.Topics = []string{"jobs", "jbos"}
		n := w.start(o, nil)
		if err := <-n.err; err == nil || !strings.Contains(err.Error(), "jbos") {
			t.Errorf("got %v, want an error that names jbos", err)
		}
	})
}

func TestDerivedTopicsMustExistUnlessCreated(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		o := w.options()
		o.CreateTopics = false
		n := w.start(o, nil)
		if err := <-n.err; err == nil || !strings.Contains(err.Error(), "jobs.dlq") {
			t.Errorf("got %v, want an error that names jobs.dlq", err)
		}
	})
}

// No more jobs than Workers are ready or in flight.
func TestJobsInFlightAreBounded(t *testing.T) {
	t.Parallel()
	bubble(t, 2, func(w *fleet) {
		w.produce("jobs", numbered(0, 100)...)
		o := w.options()
		o.Workers = 7
		n := w.start(o, nil)
		held := n.holding(7)
		synctest.Wait()
		if got := len(n.values()); got != 7 || n.c.Status().InFlight != 7 {
			t.Errorf("got %d jobs handed out and %d in flight, want 7", got, n.c.Status().InFlight)
		}
		for _, d := range held[:3] {
			d.Done(consumer.Outcome{})
			d.Done(consumer.Outcome{}) // a second call has no effect
			d.Release()
		}
		synctest.Wait()
		if got := len(n.values()); got != 10 {
			t.Errorf("after 3 were settled: got %d jobs handed out, want 10", got)
		}
		for _, d := range append(held[3:], n.holding(3)...) {
			d.Done(consumer.Outcome{})
		}
		go n.settleHeld()
		w.until("all seen", func() bool { return len(n.values()) == 100 })
		w.ok(n.end())
	})
}

// The next job of a key comes only after the one before it is settled. Jobs of other keys do
// not wait.
func TestOrderByKey(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", keyed("a", "a1"), keyed("a", "a2"), keyed("b", "b1"), keyed("", "x1"), keyed("a", "a3"), keyed("", "x2"))
		o, reg := w.options(), prometheus.NewRegistry()
		o.Registerer = reg
		n := w.start(o, nil)
		first := n.holding(4)
		if got, want := strings.Join(n.values(), " "), "a1 b1 x1 x2"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := gather(t, reg)["dispatcher_consumer_behind_key_jobs"]; got != 2 {
			t.Errorf("got %v jobs behind another one of their key, want a2 and a3", got)
		}
		first[0].Done(consumer.Outcome{})
		second := n.holding(1)
		second[0].Done(consumer.Outcome{})
		n.holding(1)[0].Done(consumer.Outcome{})
		if got, want := strings.Join(n.values(), " "), "a1 b1 x1 x2 a2 a3"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := gather(t, reg)["dispatcher_consumer_behind_key_jobs"]; got != 0 {
			t.Errorf("got %v jobs behind another one of their key, want none", got)
		}
		for _, d := range first[1:] {
			d.Done(consumer.Outcome{})
		}
		w.ok(n.end())
		if offset, _ := w.committed("jobs", 0); offset != 6 {
			t.Errorf("got offset %d committed, want 6", offset)
		}
	})
}

// In partition order one job of a partition is in flight at a time, whatever its
// key; other partitions go on.
func TestOrderByPartition(t *testing.T) {
	t.Parallel()
	bubble(t, 2, func(w *fleet) {
		zero, one := keysOf(0, 2, 3), keysOf(1, 2, 2)
		w.produce("jobs", keyed(zero[0], "a1"), keyed(zero[1], "a2"), keyed(zero[2], "a3"), keyed(one[0], "b1"), keyed(one[1], "b2"))
		o := w.options()
		o.Order = consumer.OrderPartition
		n := w.start(o, nil)
		for round := 1; round <= 3; round++ {
			held := n.holding(min(2, 5-2*(round-1)))
			time.Sleep(time.Second)
			if got, want := len(n.values()), min(2*round, 5); got != want {
				t.Fatalf("got %d jobs handed out in round %d, want %d", got, round, want)
			}
			for _, d := range held {
				d.Done(consumer.Outcome{})
			}
		}
		w.ok(n.end())
		got := n.values()
		a := slices.DeleteFunc(slices.Clone(got), func(v string) bool { return v[0] != 'a' })
		if !slices.IsSorted(a) || len(got) != 5 {
			t.Errorf("got %v, want each partition in order", got)
		}
	})
}

// Without order, jobs of one key are in flight together.
func TestNoOrder(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", keyed("a", "a1"), keyed("a", "a2"), keyed("a", "a3"))
		o := w.options()
		o.Order = consumer.OrderNone
		n := w.start(o, nil)
		for _, d := range n.holding(3) {
			d.Done(consumer.Outcome{})
		}
		w.ok(n.end())
	})
}

// A released job closes its key until the next assignment: no job of the key overtakes it.
func TestReleaseClosesTheKey(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", keyed("a", "a1"), keyed("a", "a2"), keyed("b", "b1"))
		n := w.start(w.options(), nil)
		held := n.holding(2)
		held[0].Release()
		held[1].Done(consumer.Outcome{})
		w.produce("jobs", keyed("a", "a3"), keyed("c", "c1"))
		n.holding(1)[0].Done(consumer.Outcome{})
		synctest.Wait()
		if got, want := strings.Join(n.values(), " "), "a1 b1 c1"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		w.ok(n.end())
		next := w.start(w.options(), settled)
		w.until("the key's jobs are seen", func() bool { return len(next.values()) >= 3 })
		w.ok(next.end())
		if got, want := strings.Join(next.values(), " "), "a1 a2 a3"; got != want {
			t.Errorf("after the restart: got %s, want %s", got, want)
		}
	})
}

// A slow partition gets its turn beside a full one.
func TestPartitionsTakeTurns(t *testing.T) {
	t.Parallel()
	bubble(t, 2, func(w *fleet) {
		var many []job.Record
		for _, key := range keysOf(0, 2, 3000) {
			many = append(many, keyed(key, "full"))
		}
		w.produce("jobs", many...)
		o := w.options()
		o.Workers = 4
		n := w.start(o, nil)
		held := n.holding(4)
		w.produce("jobs", keyed(keysOf(1, 2, 1)[0], "slow"))
		time.Sleep(time.Second) // it is fetched by then
		for range 2 {
			held[0].Done(consumer.Outcome{})
			held = append(held[1:], n.holding(1)...)
		}
		if got := n.values()[4:]; !slices.Contains(got, "slow") {
			t.Errorf("got %v after two hand-outs, want the slow partition's job among them", got)
		}
		go n.settleHeld()
		for _, d := range held {
			d.Done(consumer.Outcome{})
		}
		w.ok(n.end())
	})
}

func keyed(key, value string) job.Record {
	r := job.Record{Value: []byte(value)}
	if key != "" {
		r.Key = []byte(key)
	}
	return r
}

// A batch that is larger than the size of a fetch is read all the same.
func TestOneLargeBatch(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", job.Record{Value: bytes.Repeat([]byte("x"), 900_000)}, job.Record{Value: []byte("after")})
		n := w.start(w.options(), settled)
		w.until("both seen", func() bool { return len(n.values()) == 2 })
		w.ok(n.end())
	})
}

// Without a committed offset, tools and autoscalers would see no lag.
func TestCommitsAtTheAssignment(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		n := w.start(w.options(), nil)
		w.until("offset 0 is committed", func() bool { offset, _ := w.committed("jobs", 0); return offset == 0 })
		w.ok(n.end())
	})
}

// Each topic has a group, an order and dead letters of its own.
func TestTwoTopics(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 10)...)
		w.produce("more", numbered(10, 30)...)
		o := w.options()
		o.Topics = []string{"jobs", "more"}
		n := w.start(o, func(d *consumer.Delivery) {
			if d.Job.Topic == "more" && d.Job.Offset == 3 {
				go d.Dead(deadletter.Failure{Class: deadletter.ClassExpired}, consumer.Outcome{})
				return
			}
			d.Done(consumer.Outcome{})
		})
		w.until("all are settled", func() bool {
			a, _ := w.committed("jobs", 0)
			b, _ := w.committed("more", 0)
			return a == 10 && b == 20
		})
		w.ok(n.end())
		if a, b := len(w.letters("jobs")), len(w.letters("more")); a != 0 || b != 1 {
			t.Errorf("got %d and %d dead letters, want 0 and 1", a, b)
		}
	}, "jobs", "more")
}
