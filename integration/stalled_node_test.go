package integration

import (
	"slices"
	"strings"
	"testing"
	"time"

	"dispatcher/internal/containers"
)

const stalledAfter = 5 * time.Second

// A node that can't work while others can gives its partitions up, and asks for
// some when it can again. Where nobody can, all stay where they are.
func TestStalledNodeReal(t *testing.T) {
	w := startServers(t, containers.Kafka)
	t.Run("Redis is cut off from a node", func(t *testing.T) {
		t.Parallel()
		r := startRelay(t, w.redis.Addr)
		w.stalled(t, w.startJudge(t, 0), r, "redis.addrs="+r.addr, "limiter is away")
	})
	t.Run("the provider is cut off from a node", func(t *testing.T) {
		t.Parallel()
		j := w.startJudge(t, 0)
		r := startRelay(t, j.addr)
		w.stalled(t, j, r, "sender.http.url=http://"+r.addr+"/send", "the provider does not answer this node")
	})
	t.Run("Redis is cut off from all", w.allCutOff)
}

// stalled plays two nodes, of which one has a way of its own that is cut.
func (w *servers) stalled(t *testing.T, j *judge, r *relay, way, why string) {
	t.Helper()
	const jobs, more = 4500, 1500
	s := w.sceneBefore(t, j, 300, 6, "kafka.stalled_after="+stalledAfter.String(), "sender.retry.backoff=100ms", "sender.retry.max_backoff=1s")
	s.enqueue(t, jobs)
	well := s.startOne(t)
	sick := s.startOne(t, way)
	s.judge.count(t, 500, time.Minute)
	r.cut(true)
	cut := time.Now()
	eventually(t, time.Minute, func() bool { return strings.Contains(sick.said(t), "stalled node left its groups") },
		func() string { return "the node keeps its partitions" })
	gave := time.Since(cut)
	sick.tells(t, why)
	if code, text := sick.ready(t); code != 503 || !strings.Contains(text, "left its groups") {
		t.Errorf("got %d and %s from /readyz, want 503 and that the node left its groups", code, text)
	}
	s.settled(t, 2*time.Minute) // by the other one alone
	s.onceButCut(t, sick, jobs)
	if strings.Contains(well.said(t), "stalled node left its groups") {
		t.Error("the other node gave its partitions up as well")
	}

	r.cut(false)
	mended := time.Now()
	eventually(t, time.Minute, func() bool {
		code, _ := sick.ready(t)
		return code == 200 && sick.metric(t, "dispatcher_consumer_joined") == 1
	},
		func() string { return "the node does not take part again" })
	back := time.Since(mended)
	before := sick.metric(t, "dispatcher_limit_granted_units_total")
	s.enqueue(t, more)
	s.settled(t, time.Minute)
	if sick.metric(t, "dispatcher_limit_granted_units_total") == before {
		t.Error("the node that is back got no slots")
	}
	stop(t, s.running()...)
	kept(t, s.judge.report(t, s.cap))
	t.Logf("gave its partitions up %v after the cut (after %v of it), was back %v after the mend", gave.Round(100*time.Millisecond), stalledAfter, back.Round(100*time.Millisecond))
}

// onceButCut: no job is lost, and none repeated but those that were on the wire
// when it was cut.
func (s *scene) onceButCut(t *testing.T, sick *node, jobs int) {
	t.Helper()
	const trip = 50 * time.Millisecond
	all := s.judge.arrivals(t)
	if r := s.judge.report(t, s.cap); r.Distinct != jobs {
		t.Errorf("got %d jobs sent, want %d", r.Distinct, jobs)
	}
	last := lastOf(all, sick.number, trip)
	for _, key := range repeated(all) {
		if !slices.Contains(last, key) {
			t.Errorf("job %s was repeated, and was not on the wire at the cut", key)
		}
	}
}

// allCutOff: nobody gives up what nobody else could do.
func (w *servers) allCutOff(t *testing.T) {
	t.Parallel()
	const jobs = 3000
	r := startRelay(t, w.redis.Addr)
	// Calls that are on the wire at the cut still end, and look like work.
	s := w.scene(t, 300, 6, 3*time.Second, "kafka.stalled_after="+stalledAfter.String(), "redis.addrs="+r.addr, "kafka.workers=2000")
	s.enqueue(t, jobs)
	s.start(t, 2)
	s.judge.count(t, 500, time.Minute)
	r.cut(true)
	pass(3 * stalledAfter)
	r.cut(false)
	s.finishOnce(t, jobs)
	for _, n := range s.nodes {
		if strings.Contains(n.said(t), "stalled node left its groups") {
			t.Errorf("node %d gave its partitions up, and no other could work", n.number)
		}
	}
}
