package consumer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/job"
)

func inLanes(o consumer.Options, lanes ...consumer.Lane) consumer.Options {
	o.Topics, o.Lanes = nil, lanes
	return o
}

// A job of the first lane that comes late goes before all that wait in the others. The status
// has the jobs of each lane.
func TestALateJobOfTheFirstLaneGoesFirst(t *testing.T) {
	t.Parallel()
	bubble(t, 2, func(w *fleet) {
		w.produce("bulk", numbered(0, 1000)...)
		o := inLanes(w.options(), consumer.Lane{Name: "otp", Topics: []string{"codes"}}, consumer.Lane{Name: "rest", Topics: []string{"bulk"}})
		o.Workers = 20
		n := w.idle(o)
		w.until("bulk is ready", func() bool { return n.c.ReadyJobs() == 20 })
		w.produce("codes", numbered(5000, 5003)...)
		w.until("codes are ready", func() bool { return n.c.ReadyJobs() == 23 })
		lanes := n.c.Status().Lanes
		lanes[0].Oldest, lanes[1].Oldest = 0, 0
		if lanes[0] != (consumer.LaneStatus{Lane: "otp", Ready: 3, Waiting: 3}) || lanes[1] != (consumer.LaneStatus{Lane: "rest", Ready: 20, Waiting: 1000}) {
			t.Errorf("got %+v, want 3 ready of 3 in otp, and 20 ready of 1000 in rest", lanes)
		}
		var topics []string
		for range 5 {
			d := n.c.Take()
			topics = append(topics, d.Job.Topic)
			d.Done(consumer.Outcome{})
		}
		if want := []string{"codes", "codes", "codes", "bulk", "bulk"}; !slices.Equal(topics, want) {
			t.Errorf("got %v, want %v", topics, want)
		}
		w.ok(n.end())
	}, "codes", "bulk")
}

// A lane whose jobs are all in flight takes no room from the others.
func TestEachLaneHasItsOwnRoom(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("codes", numbered(0, 50)...)
		w.produce("bulk", numbered(100, 150)...)
		o := inLanes(w.options(), consumer.Lane{Name: "otp", Topics: []string{"codes"}}, consumer.Lane{Name: "rest", Topics: []string{"bulk"}})
		o.Workers = 5
		n := w.start(o, func(d *consumer.Delivery) {
			if d.Job.Topic == "bulk" {
				d.Done(consumer.Outcome{})
				return
			}
			releasedLater(d)
		})
		w.until("the other lane is through", func() bool { offset, _ := w.committed("bulk", 0); return offset == 50 })
		if lanes := n.c.Status().Lanes; lanes[0].InFlight != 5 || lanes[1].InFlight != 0 {
			t.Errorf("got %+v, want 5 and 0 in flight", lanes)
		}
		w.ok(n.end())
	}, "codes", "bulk")
}

// The lane of a job is that of its topic. A header that names another lane is refused.
func TestAJobIsOfItsTopicsLane(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		lane := func(name string) []job.Header { return []job.Header{{Key: "lane", Value: []byte(name)}} }
		w.produce("bulk", job.Record{Value: []byte("same"), Headers: lane("rest")}, job.Record{Value: []byte("other"), Headers: lane("otp")})
		o := inLanes(w.options(), consumer.Lane{Name: "otp", Topics: []string{"codes"}}, consumer.Lane{Name: "rest", Topics: []string{"bulk"}})
		n := w.start(o, settled)
		w.until("both are settled", func() bool { offset, _ := w.committed("bulk", 0); return offset == 2 })
		w.ok(n.end())
		letters := w.letters("bulk")
		if !slices.Equal(n.values(), []string{"same"}) || len(letters) != 1 || headerMap(letters[0])["x-error-class"] != "unsupported" {
			t.Errorf("handed out %v, dead letters %v; want same and other", n.values(), letters)
		}
	}, "codes", "bulk")
}

// The age of a lane is that of its oldest job that waits or is in flight, whatever is settled
// after it; a job that is not due yet has none.
func TestTheOldestJobIsKnown(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		begin := time.Now()
		w.produce("jobs", keyed("", "0"), keyed("", "1"))
		time.Sleep(10 * time.Second)
		w.produce("jobs", keyed("", "2"), scheduled("3", begin.Add(40*time.Second)))
		n := w.start(w.options(), nil)
		held := n.holding(3)
		age := func(want time.Duration) {
			t.Helper()
			time.Sleep(time.Until(begin.Add(30 * time.Second)))
			if got := n.c.Status().Lanes[0].Oldest.Round(time.Second); got != want {
				t.Errorf("got an age of %v, want %v", got, want)
			}
		}
		age(30 * time.Second)
		held[1].Done(consumer.Outcome{})
		age(30 * time.Second)
		held[0].Done(consumer.Outcome{})
		age(20 * time.Second)
		held[2].Done(consumer.Outcome{})
		age(0)
		time.Sleep(15 * time.Second) // the last one is due for 5 s
		age(5 * time.Second)
		n.holding(1)[0].Done(consumer.Outcome{})
		age(0)
		w.ok(n.end())
	})
}

// A tenant behind a long run of another one gets its turns, by weights that act at once. A job without a tenant is a
// dead letter that says so.
func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		of := func(tenant string, n int) (all []job.Record) {
			for i := range n {
				all = append(all, job.Record{Value: []byte(fmt.Sprintf(`{"id":"%s-%d"}`, tenant, i)), Headers: []job.Header{{Key: "tenant", Value: []byte(tenant)}}})
			}
			return all
		}
		w.produce("bulk", of("long", 2000)...)
		w.produce("bulk", of("short", 200)...)
		w.produce("bulk", job.Record{Value: []byte("nobody's")})
		n := w.idle(inLanes(w.options(), consumer.Lane{Name: "bulk", Topics: []string{"bulk"}, Fair: `job.headers["tenant"]`}))
		take := func(jobs int) map[string]int {
			got := map[string]int{}
			for range jobs {
				w.until("a job is ready", func() bool { return n.c.ReadyJobs() > 0 })
				d := n.c.Take()
				got[string(d.Job.Headers[0].Value)]++
				d.Done(consumer.Outcome{})
			}
			return got
		}
		take(100) // each makes more of the log ready
		if got := take(100); got["short"] != 50 {
			t.Errorf("got %v of 100 jobs, want half of each tenant", got)
		}
		n.c.SetWeights(map[string]float64{"short": 3})
		if got := take(80); got["short"] < 59 || got["short"] > 61 {
			t.Errorf("got %v of 80 jobs, want three of four of the tenant with the weight 3", got)
		}
		w.until("the job without a tenant is a dead letter", func() bool { return len(w.letters("bulk")) == 1 })
		h := headerMap(w.letters("bulk")[0])
		if h["x-error-class"] != "unsupported" || !strings.Contains(h["x-error-message"], `lane bulk: fair: expression "job.headers[`) {
			t.Errorf("got %v, want the lane and the expression that fails", h)
		}
		w.ok(n.end())
	}, "bulk")
}
