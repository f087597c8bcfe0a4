package integration

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"dispatcher/internal/containers"
	"dispatcher/internal/provider"
)

// laneScene is a fleet under 300 a second, with jobs that are urgent and others.
type laneScene struct {
	*scene

	urgent, bulk string // topics
	none         string // one without jobs
}

const (
	bulkShare        = 0.1
	partitionsOfLane = 16
	mostUrgentWait   = 100 * time.Millisecond // from write to call, of 99 in 100
)

func (w *servers) laneScene(t *testing.T) *laneScene {
	t.Helper()
	s := &laneScene{scene: w.scene(t, 300, 1, 20*time.Millisecond)}
	s.urgent, s.bulk, s.none = s.topic+".urgent", s.topic+".bulk", s.topic+".none"
	w.createTopic(t, s.urgent, partitionsOfLane)
	w.createTopic(t, s.bulk, partitionsOfLane)
	w.createTopic(t, s.none, 1)
	return s
}

// inLanes are the settings of a node that works these topics.
func (s *laneScene) inLanes(urgent, bulk string) []string {
	return []string{
		"kafka.topics=", "kafka.lanes.0.name=urgent", "kafka.lanes.0.topics=" + urgent,
		"kafka.lanes.1.name=bulk", "kafka.lanes.1.topics=" + bulk, fmt.Sprint("kafka.lanes.1.min_share=", bulkShare),
	}
}

// begin starts nodes beside 20,000 bulk jobs, and waits until they send. apart: the last node has the urgent jobs alone, and the
// others have none.
func (s *laneScene) begin(t *testing.T, nodes int, apart bool) {
	t.Helper()
	s.fill(t, s.bulk, "bulk", 20_000)
	for n := range nodes {
		urgent, bulk := s.urgent, s.bulk
		switch {
		case apart && n == nodes-1:
			bulk = s.none
		case apart:
			urgent = s.none
		}
		s.startOne(t, s.inLanes(urgent, bulk)...)
	}
	s.judge.count(t, 1000, time.Minute)
}

// fill writes jobs without keys: each partition gets as many.
func (s *laneScene) fill(t *testing.T, topic, name string, jobs int) {
	t.Helper()
	var records []*kgo.Record
	for i := range jobs {
		records = append(records, s.numbered(topic, name, i))
	}
	s.putWhere(t, records...)
}

// numbered is a job without a key. The partitions get such jobs in turn.
func (s *laneScene) numbered(topic, name string, n int) *kgo.Record {
	r := s.named("", fmt.Sprint(name, "-", n))
	r.Topic, r.Key, r.Partition = topic, nil, int32(n%partitionsOfLane) //nolint:gosec // a small number
	return r
}

// send writes jobs to the topic of the urgent ones at so many a second, and returns when each was written.
func (s *laneScene) send(t *testing.T, name string, rate, jobs int) (written []time.Time) {
	t.Helper()
	cl := s.producer(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	began := time.Now()
	for i := range jobs {
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		written = append(written, time.Now())
		cl.Produce(t.Context(), s.numbered(s.urgent, name, i), nil)
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return written
}

// bareReader reads the topic of the urgent jobs beside the fleet, and does nothing else. The function that it returns waits until it
// has read so many jobs of a name, and returns how long each took from its write to there, the shortest first. That part of a
// job's wait is Kafka's.
func (s *laneScene) bareReader(t *testing.T, name string, jobs int) func(written []time.Time) []time.Duration {
	t.Helper()
	cl := s.producer(t, kgo.ConsumeTopics(s.urgent), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	read := make([]time.Time, jobs)
	var ends sync.WaitGroup
	ends.Go(func() {
		for left := jobs; left > 0 && t.Context().Err() == nil; {
			cl.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) {
				var n int
				if _, err := fmt.Sscanf(string(r.Headers[0].Value), name+"-%d", &n); err == nil {
					read[n] = time.Now()
					left--
				}
			})
		}
	})
	return func(written []time.Time) (waits []time.Duration) {
		ends.Wait()
		for n, at := range written {
			waits = append(waits, read[n].Sub(at))
		}
		slices.Sort(waits)
		return waits
	}
}

// waited is how long each of the urgent jobs took from its write to its call, the shortest first.
func (s *laneScene) waited(t *testing.T, written []time.Time) (waits []time.Duration) {
	t.Helper()
	var all []provider.Arrival
	eventually(t, time.Minute, func() bool {
		all = slices.DeleteFunc(s.judge.arrivals(t), func(a provider.Arrival) bool { return !strings.HasPrefix(a.Key, "urgent-") })
		return len(all) >= len(written)
	}, func() string { return fmt.Sprintf("got %d calls of urgent jobs, want %d", len(all), len(written)) })
	epoch := s.judge.epoch(t)
	for _, a := range all {
		var n int
		if _, err := fmt.Sscanf(a.Key, "urgent-%d", &n); err != nil {
			t.Fatal(err)
		}
		waits = append(waits, epoch.Add(a.At).Sub(written[n]))
	}
	slices.Sort(waits)
	return waits
}

func percentiles(sorted []time.Duration) string {
	at := func(i int) time.Duration { return sorted[i].Round(time.Millisecond) }
	return fmt.Sprintf("%v (median), %v (99 %%), %v (all)", at(len(sorted)/2), at(len(sorted)*99/100), at(len(sorted)-1))
}

// rest is what was used of the cap in a time, and which part of the calls were bulk jobs.
func (s *laneScene) rest(t *testing.T, from, to time.Duration) (used, bulk float64) {
	t.Helper()
	all := slices.DeleteFunc(s.judge.arrivals(t), func(a provider.Arrival) bool { return a.At < from || a.At >= to })
	for _, a := range all {
		if strings.HasPrefix(a.Key, "bulk-") {
			bulk++
		}
	}
	return float64(len(all)) / (to - from).Seconds() / float64(s.cap), bulk / float64(max(1, len(all)))
}

// Urgent jobs pass the bulk of others on however many nodes, and wherever they are. Where they alone are more than the cap,
// the others keep their min share over the fleet.
func TestLanesReal(t *testing.T) {
	w := startServers(t, containers.Kafka)
	for _, run := range []struct {
		name        string
		nodes, rate int
		apart       bool
		early       int // seconds: the first fleet works until its broker, which has just started, has compiled its code
	}{
		{"8 nodes, 50 a second", 8, 50, false, 35},
		{"8 nodes, 50 a second, on a node without bulk jobs", 8, 50, true, 5},
		{"3 nodes, 5 a second", 3, 5, false, 5},
	} {
		t.Run(run.name, func(t *testing.T) {
			s := w.laneScene(t)
			quiet(t)
			s.begin(t, run.nodes, run.apart)
			bare := s.bareReader(t, "urgent", 20*run.rate)
			s.send(t, "early", run.rate, run.early*run.rate)
			epoch := s.judge.epoch(t)
			from := time.Since(epoch)
			written := s.send(t, "urgent", run.rate, 20*run.rate)
			used, bulk := s.rest(t, from, time.Since(epoch))
			waits := s.waited(t, written)
			t.Logf("%d urgent jobs waited %s; a bare reader got them after %s; %.3f of the cap used, %.3f of it by bulk jobs",
				len(waits), percentiles(waits), percentiles(bare(written)), used, bulk)
			p99 := waits[len(waits)*99/100]
			figure(t, p99 <= mostUrgentWait, "got %v for 99 of 100 urgent jobs from write to call, want at most %v", p99, mostUrgentWait)
			kept(t, s.judge.report(t, 300))
			stop(t, s.nodes...)
		})
	}
	for name, apart := range map[string]bool{"overloaded": false, "overloaded, on a node without bulk jobs": true} {
		t.Run(name, func(t *testing.T) {
			s := w.laneScene(t)
			quiet(t)
			s.fill(t, s.urgent, "urgent", 20_000)
			s.begin(t, 3, apart)
			epoch := s.judge.epoch(t)
			time.Sleep(3 * time.Second)
			from := time.Since(epoch)
			time.Sleep(20 * time.Second)
			used, bulk := s.rest(t, from, time.Since(epoch))
			t.Logf("bulk jobs got %.3f of the calls, %.3f of the cap was used", bulk, used)
			figure(t, bulk >= bulkShare-0.02 && bulk <= bulkShare+0.02, "got %.3f of the calls for bulk jobs, want %.2f", bulk, bulkShare)
			kept(t, s.judge.report(t, 300))
			stop(t, s.nodes...)
		})
	}
}
