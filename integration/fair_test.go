package integration

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"dispatcher/internal/containers"
	"dispatcher/internal/provider"
)

const (
	longRun     = 5000 // jobs of the first tenant ahead in each partition
	fairParts   = 6
	fairCap     = 1000
	secondsJobs = 100 // of the second tenant, spread over the partitions
)

// A tenant with 100 jobs behind 5,000 jobs of another one in each partition waits for its turn, where the lane is fair.
// Without that it waits for all of them.
func TestFairReal(t *testing.T) {
	w := startServers(t, containers.Kafka)
	t.Run("without fair", func(t *testing.T) { w.twoTenants(t) })
	t.Run("fair", func(t *testing.T) {
		share, p99 := w.twoTenants(t, `kafka.lanes.0.fair=job.headers["tenant"]`)
		figure(t, share >= 0.4 && share <= 0.6, "got %.3f of the calls for the second tenant while both waited, want about half", share)
		figure(t, p99 <= 2*time.Second, "got %v for 99 %% of its jobs, want at most 2s: 5,000 jobs ahead are fetched meanwhile", p99)
	})
	t.Run("weights", w.weightsChange)
}

// tenantJob is the nth job of a tenant.
func (s *scene) tenantJob(tenant string, n int) *kgo.Record {
	r := s.named("", fmt.Sprint(tenant, "-", n), kgo.RecordHeader{Key: "tenant", Value: []byte(tenant)})
	r.Key, r.Partition = nil, int32(n%fairParts) //nolint:gosec // a small number
	return r
}

// tenantsScene has a long run of the first tenant in each partition, and jobs of the second one behind it. Its nodes have one lane.
func (w *servers) tenantsScene(t *testing.T, second int, settings ...string) *scene {
	t.Helper()
	s := w.scene(t, fairCap, fairParts, 20*time.Millisecond)
	s.settings = append(s.settings, "kafka.topics=", "kafka.lanes.0.name=bulk", "kafka.lanes.0.topics="+s.topic)
	s.settings = append(s.settings, settings...)
	var all []*kgo.Record
	for n := range fairParts * longRun {
		all = append(all, s.tenantJob("first", n))
	}
	for n := range second {
		all = append(all, s.tenantJob("second", n))
	}
	s.putWhere(t, all...)
	return s
}

// callsOf are the times of a tenant's calls.
func (s *scene) callsOf(t *testing.T, tenant string) (at []time.Duration) {
	t.Helper()
	for _, a := range s.judge.arrivals(t) {
		if strings.HasPrefix(a.Key, tenant+"-") {
			at = append(at, a.At)
		}
	}
	slices.Sort(at)
	return at
}

// twoTenants returns the second tenant's share of the calls while both waited, and how long 99 % of its jobs took from the
// first call on.
func (w *servers) twoTenants(t *testing.T, settings ...string) (share float64, p99 time.Duration) {
	t.Helper()
	s := w.tenantsScene(t, secondsJobs, settings...)
	s.start(t, 3)
	var second []time.Duration
	for deadline := time.Now().Add(2 * time.Minute); len(second) < secondsJobs; second = s.callsOf(t, "second") {
		if time.Now().After(deadline) {
			t.Fatalf("got %d calls of the second tenant, want %d", len(second), secondsJobs)
		}
		time.Sleep(time.Second) // the judge has enough to do
	}
	all := s.judge.arrivals(t)
	begin := slices.MinFunc(all, func(a, b provider.Arrival) int { return cmp.Compare(a.At, b.At) }).At
	share, p99 = shareByNode(all), second[len(second)*99/100]-begin
	r := s.judge.report(t, fairCap)
	t.Logf("the second tenant's jobs began after %v, 99 %% of them took %v at most; while both waited on a node it had %.3f of the node's calls; %.3f of the cap used",
		(second[0] - begin).Round(time.Millisecond), p99.Round(time.Millisecond), share, r.Utilisation)
	kept(t, r)
	stop(t, s.running()...)
	return share, p99
}

// shareByNode is the second tenant's share of the calls that nodes made while they held jobs of both: from its first call on
// a node to its last one there. Nodes fetch their partitions at different moments, and a tenant takes turns where it is held.
func shareByNode(all []provider.Arrival) float64 {
	all = slices.SortedFunc(slices.Values(all), func(a, b provider.Arrival) int { return cmp.Compare(a.At, b.At) })
	type span struct{ seconds, firsts, since int } // since: the first tenant's calls after the second's last one
	byNode := map[int]*span{}
	for _, a := range all {
		of := byNode[a.Node]
		switch second := strings.HasPrefix(a.Key, "second-"); {
		case of == nil && second:
			byNode[a.Node] = &span{seconds: 1}
		case of != nil && second:
			of.seconds, of.firsts, of.since = of.seconds+1, of.firsts+of.since, 0
		case of != nil:
			of.since++
		}
	}
	var seconds, both int
	for _, of := range byNode {
		seconds, both = seconds+of.seconds, both+of.seconds+of.firsts
	}
	return float64(seconds) / float64(both)
}

// weightsChange has the second tenant get half of the calls, and three of four once its weight is 3.
func (w *servers) weightsChange(t *testing.T) {
	t.Helper()
	s := w.tenantsScene(t, 12_000, `kafka.lanes.0.fair=job.headers["tenant"]`)
	s.start(t, 3)
	eventually(t, time.Minute, func() bool { return len(s.callsOf(t, "second")) > 500 }, func() string { return "the second tenant is not called" })
	const span = 3 * time.Second
	epoch := s.judge.epoch(t)
	nextShare := func() float64 {
		from := time.Since(epoch)
		time.Sleep(span)
		in := func(at []time.Duration) (n int) {
			for _, one := range at {
				if one >= from && one < from+span {
					n++
				}
			}
			return n
		}
		second := in(s.callsOf(t, "second"))
		return float64(second) / float64(second+in(s.callsOf(t, "first")))
	}
	before := nextShare()
	t.Log(s.mustCommand(t, "limit", "set", "provider", "--weights", "second=3", "--why", "a paid plan", "--wait"))
	after := nextShare()
	t.Logf("the second tenant had %.3f of the calls, and %.3f with the weight 3", before, after)
	figure(t, before >= 0.45 && before <= 0.55, "got %.3f, want half", before)
	figure(t, after >= 0.7 && after <= 0.8, "got %.3f, want three of four", after)
	stop(t, s.running()...)
}
