package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dispatcher/internal/containers"
	"dispatcher/internal/provider"
)

// What brokers, topics and offsets do under nodes that run is survived, or
// refused with a clear word. The scenarios don't measure the cap, so they run
// beside one another.
func TestBrokersReal(t *testing.T) {
	w := startServers(t, containers.Kafka)
	t.Run("the broker is restarted", w.brokerRestarted)
	t.Run("the coordinator moves", w.coordinatorMoved)
	t.Run("a topic is recreated", w.topicRemade)
	t.Run("the group's offset is not in the log", w.outOfRange)
	t.Run("nodes of another version are in the group", w.upgrade)
}

// cluster is the same servers with other brokers. Its scenarios are counted from a
// number of their own, since they share a Redis.
func (w *servers) cluster(t *testing.T, brokers int, from int64) (*servers, *containers.KafkaSet) {
	t.Helper()
	set := containers.KafkaSetOf(t, brokers)
	other := &servers{
		kafka: &containers.Server{Addr: set.Addr(1)}, redis: w.redis, rdb: w.rdb, dispatcher: w.dispatcher, provider: w.provider, replicas: brokers,
	}
	other.scenarios.Store(from)
	return other, set
}

// spread puts jobs into all partitions, called by the name and their number.
func (s *scene) spread(t *testing.T, name string, partitions, jobs int) {
	t.Helper()
	each := jobs / partitions
	for p := range partitions {
		s.putWhere(t, s.at(int32(p), name, p*each, (p+1)*each)...)
	}
}

// outage is a stretch of a scene, by the provider's clock.
type outage struct {
	name     string
	from, to time.Duration
}

// now is the time of the last call that the provider has seen.
func (s *scene) now(t *testing.T) time.Duration { t.Helper(); return s.judge.report(t, s.cap).Last }

// brokerRestarted: the only broker goes and comes back with its data, once as an
// operator does it and once as a crash does. No job is lost. Repeated are only
// jobs whose call ended after the last commit that the broker took.
func (w *servers) brokerRestarted(t *testing.T) {
	t.Parallel()
	const partitions, jobs, limit, away = 6, 6000, 400, 10 * time.Second
	w, set := w.cluster(t, 1, 100)
	s := w.scene(t, limit, partitions, faultLatency)
	s.spread(t, "job", partitions, jobs)
	s.start(t, 2)
	s.judge.count(t, jobs/5, time.Minute)

	stopped := outage{from: s.now(t)}
	begin := time.Now()
	set.Stop(1)
	pass(away - time.Since(begin))
	set.Start(1)
	stopped.name = fmt.Sprintf("SIGTERM, away for %v", time.Since(begin).Round(100*time.Millisecond))
	stopped.to = s.back(t, stopped.from)

	s.judge.count(t, s.judge.report(t, limit).Sent+jobs/5, time.Minute)
	killed := outage{from: s.now(t)}
	begin = time.Now()
	set.Kill(1)
	set.Start(1)
	killed.name = fmt.Sprintf("SIGKILL, away for %v", time.Since(begin).Round(100*time.Millisecond))
	killed.to = s.back(t, killed.from)

	s.settled(t, time.Minute)
	s.lagGone(t)
	nodes := s.running()
	stop(t, nodes...)
	for _, n := range nodes {
		n.tells(t, "no broker answered the last commit", "partitions drained", "partitions assigned")
	}
	all := s.judge.arrivals(t)
	s.complete(t, all, jobs)
	s.explained(t, all, stopped, killed)
}

// back waits for calls again, and returns when the first one came.
func (s *scene) back(t *testing.T, after time.Duration) (first time.Duration) {
	t.Helper()
	eventually(t, time.Minute, func() bool {
		var gap time.Duration
		gap, first = longestGap(stamps(s.judge.arrivals(t)), after)
		return gap > time.Second
	}, func() string { return "no job is called again" })
	return first
}

// longestGap is the longest time without a call after a moment, and the moment
// at which that was over.
func longestGap(calls []time.Duration, after time.Duration) (gap, over time.Duration) {
	last := after
	for _, at := range calls {
		if at > after {
			if at-last > gap {
				gap, over = at-last, at
			}
			last = at
		}
	}
	return gap, over
}

// complete expects that each job was called.
func (s *scene) complete(t *testing.T, all []provider.Arrival, jobs int) {
	t.Helper()
	got := statuses(all)
	for i := range jobs {
		if len(got[fmt.Sprint("job-", i)]) == 0 {
			t.Errorf("job %d is lost", i)
		}
	}
}

// explained expects that each repeated job was called first within an outage or
// in the last commit interval before it, and says how many those are.
func (s *scene) explained(t *testing.T, all []provider.Arrival, outages ...outage) {
	t.Helper()
	const unsettled = 100*time.Millisecond + faultLatency + 50*time.Millisecond // a commit interval, a call, a commit's way
	first := map[string]time.Duration{}
	slices.SortFunc(all, func(a, b provider.Arrival) int { return int(a.At - b.At) })
	for _, a := range all {
		if _, seen := first[a.Key]; !seen {
			first[a.Key] = a.At
		}
	}
	repeats := repeated(all)
	counts := make([]int, len(outages))
	for _, key := range repeats {
		i := slices.IndexFunc(outages, func(o outage) bool { return first[key] >= o.from-unsettled && first[key] < o.to })
		if i < 0 {
			t.Errorf("job %s was repeated, and its first call, at %v, was not in an outage: %v", key, first[key].Round(time.Millisecond), outages)
			continue
		}
		counts[i]++
	}
	var parts []string
	for i, o := range outages {
		gap, _ := longestGap(slices.DeleteFunc(stamps(all), func(at time.Duration) bool { return at > o.to }), o.from)
		within := 0
		for key := range first {
			if first[key] >= o.from-unsettled && first[key] < o.to {
				within++
			}
		}
		parts = append(parts, fmt.Sprintf("%s: %d repeats of %d jobs called meanwhile, no call for %v", o.name, counts[i], within, gap.Round(10*time.Millisecond)))
	}
	figure(t, len(repeats) == 0, "got %d jobs repeated, want none: a member whose broker comes back commits what it had settled", len(repeats))
	t.Logf("%d calls for %d jobs, none lost; %s", len(all), len(first), strings.Join(parts, "; "))
}
