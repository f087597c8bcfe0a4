package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"dispatcher/internal/containers"
)

// A log that loses its end by an unclean election, under a node that has worked
// all of it: no job is called again, what comes next is called once, and the node
// says what happened.
//
//	go test -run TestCutLogReal -v ./integration
func TestCutLogReal(t *testing.T) {
	var set *containers.KafkaSet
	w := startServers(t, func(t testing.TB) *containers.Server {
		t.Helper()
		set = containers.KafkaSetOf(t, 3)
		return &containers.Server{Addr: set.Addr(1)}
	})
	const before, lost, after = 300, 100, 50
	s := w.scene(t, 1000, 1, 0, "kafka.brokers="+strings.Join([]string{set.Addr(1), set.Addr(2), set.Addr(3)}, ","))
	s.topic = "cut"
	s.onBrokers(t, 2, 3)
	s.putWhere(t, s.at(0, "job", 0, before)...)
	n := s.startOne(t)
	s.settled(t, time.Minute)
	set.Stop(3) // broker 2 alone has what comes now
	s.putWhere(t, s.at(0, "lost", 0, lost)...)
	s.called(t, "lost", lost)
	eventually(t, time.Minute, func() bool { return s.committed(t)[0] == before+lost }, func() string { return "the jobs are not committed" })
	set.Kill(2)
	set.Start(3)
	eventually(t, time.Minute, func() bool { return strings.Contains(n.said(t), "the log was truncated") },
		func() string { return "the node does not say that the log was truncated" })
	n.tells(t, "topic=cut", "partition=0", "committed=400", "log_end=300")
	s.putWhere(t, s.at(0, "new", 0, after)...)
	s.called(t, "new", after)
	s.settled(t, time.Minute)
	s.lagGone(t)
	stop(t, n)
	if got := strings.Count(n.said(t), "the log was truncated"); got != 1 {
		t.Errorf("got it said %d times that the log was truncated, want once", got)
	}
	all := s.judge.arrivals(t)
	t.Logf("%d jobs worked, the last %d of them lost by an unclean election, then %d more: %d calls, %d of them repeats",
		before+lost, lost, after, len(all), len(repeated(all)))
	if len(all) != before+lost+after || len(repeated(all)) != 0 {
		t.Errorf("got %d calls and %d repeats, want %d and none", len(all), len(repeated(all)), before+lost+after)
	}
}

// onBrokers makes the scene's topic with one partition that has a replica on each
// of some brokers, any of which may lead it.
func (s *scene) onBrokers(t *testing.T, brokers ...int) {
	t.Helper()
	r, err := s.client(t).CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
		Topic: s.topic, NumPartitions: -1, ReplicationFactor: -1,
		ReplicaAssignments: []kafka.ReplicaAssignment{{Partition: 0, Replicas: brokers}},
		ConfigEntries:      []kafka.ConfigEntry{{ConfigName: "unclean.leader.election.enable", ConfigValue: "true"}},
	}}})
	if err == nil {
		err = r.Errors[s.topic]
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A topic that is deleted under nodes that run stays deleted, though the broker
// makes topics when they are asked for, as it does by default. Once it is made
// again its jobs are called.
//
//	go test -run TestDeletedTopicReal -v ./integration
func TestDeletedTopicReal(t *testing.T) {
	w := startServers(t, containers.KafkaCreating)
	const jobs, partitions, away = 300, 3, 75 * time.Second // long enough for many looks at the topic
	s := w.scene(t, 1000, partitions, 0)
	s.spread(t, "old", partitions, jobs)
	nodes := s.start(t, 2)
	s.settled(t, time.Minute)
	s.deleteTopic(t)
	for begin := time.Now(); time.Since(begin) < away; pass(time.Second) {
		if there, err := endOffsets(t.Context(), s.client(t), s.topic); err == nil {
			t.Fatalf("after %v the topic is there again, with %d partitions", time.Since(begin).Round(time.Second), len(there))
		}
	}
	s.makeTopic(t, partitions)
	s.spread(t, "new", partitions, jobs)
	s.called(t, "new", jobs)
	s.settled(t, time.Minute)
	for _, n := range nodes {
		n.tells(t, "the topic is gone")
	}
	stop(t, nodes...)
	all := s.judge.arrivals(t)
	t.Logf("the topic stayed deleted for %v; made again, %d of %d new jobs were called, %d of them again",
		away, len(statuses(of(all, "new"))), jobs, len(repeated(of(all, "new"))))
}
