package consumer_test

import (
	"sync/atomic"
	"testing"
	"time"

	"dispatcher/consumer"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// No job is taken for an hour: fetching stops once the buffers are full, heartbeats go on, the
// member keeps its partitions, and afterwards no job is missing.
func TestAPauseOfAnHourIsHarmless(t *testing.T) {
	t.Parallel()
	bubble(t, 2, func(w *fleet) {
		const jobs = 5000
		w.produce("jobs", numbered(0, jobs)...)
		var fetches, beats atomic.Int64
		w.cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			fetches.Add(1)
			return nil, nil, false
		})
		w.cluster.ControlKey(int16(kmsg.Heartbeat), func(kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			beats.Add(1)
			return nil, nil, false
		})
		o := w.options()
		o.Registerer = prometheus.NewRegistry()
		n := w.idle(o)
		w.until("jobs are ready", func() bool { return n.c.ReadyJobs() == 256 })
		time.Sleep(10 * time.Second)
		before, beaten := fetches.Load(), beats.Load()
		time.Sleep(time.Hour)
		if got := fetches.Load() - before; got != 0 {
			t.Errorf("got %d fetches in the hour, want none", got)
		}
		if got := beats.Load() - beaten; got < 3000 {
			t.Errorf("got %d heartbeats in the hour, want about 3600", got)
		}
		seen := map[string]bool{}
		w.until("all are done", func() bool {
			for d := n.c.Take(); d != nil; d = n.c.Take() {
				if seen[string(d.Job.Value)] {
					t.Errorf("got job %s twice, want it once", d.Job.Value)
				}
				seen[string(d.Job.Value)] = true
				d.Done(consumer.Outcome{})
			}
			return len(seen) == jobs
		})
		if got := gather(t, o.Registerer.(*prometheus.Registry))["dispatcher_consumer_rebalances_total"]; got != 1 {
			t.Errorf("got %v assignments, want 1", got)
		}
		w.ok(n.end())
	})
}
