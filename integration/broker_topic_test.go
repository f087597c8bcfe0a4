package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"dispatcher/internal/provider"
)

// topicRemade: a topic is deleted and made again under nodes that run: at once,
// while the limit is paused and nothing is fetched, and slowly, while they work.
// Each time it grows beyond what had been reached in the one before. All of its
// jobs are called, and the nodes say what happened.
func (w *servers) topicRemade(t *testing.T) {
	t.Parallel()
	const partitions, old, fresh = 4, 8000, 3000 // so many that a partition's buffer is full, and nothing is fetched
	s := w.scene(t, 600, partitions, faultLatency)
	s.spread(t, "old", partitions, old)
	nodes := s.start(t, 2)
	s.judge.count(t, old/8, time.Minute)
	s.mustCommand(t, "limit", "pause", "provider", "--wait")
	s.deleteTopic(t)
	s.makeTopic(t, partitions)
	s.spread(t, "paused", partitions, fresh)
	s.mustCommand(t, "limit", "resume", "provider")
	s.called(t, "paused", fresh)
	s.settled(t, time.Minute)

	s.spread(t, "more", partitions, fresh) // at work when it goes
	s.called(t, "more", fresh/4)
	gone := time.Now()
	s.deleteTopic(t)
	pass(5 * time.Second)
	s.makeTopic(t, partitions)
	made := time.Now()
	s.spread(t, "working", partitions, 2*fresh)
	s.called(t, "working", 2*fresh)
	s.settled(t, time.Minute)
	took := time.Since(made)
	s.lagGone(t)
	for _, n := range nodes {
		n.tells(t, "the topic was deleted and created again")
	}
	stop(t, nodes...)
	all := s.judge.arrivals(t)
	t.Logf("recreated at once beside a paused limit: %d of %d new jobs called, %d of them again; away for %v under work: %d of %d called, %d again, all settled after %v",
		len(statuses(of(all, "paused"))), fresh, len(repeated(of(all, "paused"))), made.Sub(gone).Round(time.Second),
		len(statuses(of(all, "working"))), 2*fresh, len(repeated(of(all, "working"))), took.Round(time.Second))
}

// of are the calls of jobs with such a name.
func of(all []provider.Arrival, name string) []provider.Arrival {
	return slices.DeleteFunc(slices.Clone(all), func(a provider.Arrival) bool { return !strings.HasPrefix(a.Key, name+"-") })
}

// called waits until so many jobs of a name have been.
func (s *scene) called(t *testing.T, name string, jobs int) {
	t.Helper()
	got := 0
	eventually(t, time.Minute, func() bool {
		got = len(statuses(of(s.judge.arrivals(t), name)))
		return got >= jobs
	}, func() string { return fmt.Sprintf("%d of %d jobs named %s were called", got, jobs, name) })
}

// makeTopic makes the scene's topic again as soon as the cluster lets it, and
// returns when it is there.
func (s *scene) makeTopic(t *testing.T, partitions int) {
	t.Helper()
	s.create(t, s.topic, partitions, nil)
	var fault error
	eventually(t, time.Minute, func() bool {
		_, fault = endOffsets(t.Context(), s.client(t), s.topic)
		return fault == nil
	}, func() string { return fmt.Sprintf("the topic is not there again: %v", fault) })
}

// deleteTopic returns when the topic is gone.
func (s *scene) deleteTopic(t *testing.T) {
	t.Helper()
	r, err := s.client(t).DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{s.topic}})
	if err == nil {
		err = r.Errors[s.topic]
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, func() bool {
		_, err := endOffsets(t.Context(), s.client(t), s.topic)
		return err != nil
	}, func() string { return "the topic is still there" })
}
