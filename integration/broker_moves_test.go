package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const offsetsTopic = "__consumer_offsets"

// coordinatorMoved: the group's coordinator goes to another broker, first by
// reassignment and then by the death of its broker, which leads half of the
// partitions too. No job is lost, and none repeated.
func (w *servers) coordinatorMoved(t *testing.T) {
	t.Parallel()
	const partitions, jobs, limit = 6, 6000, 400
	w, set := w.cluster(t, 2, 200)
	s := w.scene(t, limit, partitions, faultLatency, "kafka.brokers="+set.Addr(1)+","+set.Addr(2))
	s.spread(t, "job", partitions, jobs)
	s.start(t, 2)
	s.judge.count(t, jobs/5, time.Minute)

	from := s.coordinator(t)
	begin := s.now(t)
	s.moveCoordinator(t, 3-from)
	moved := outage{name: fmt.Sprintf("moved from broker %d to %d", from, 3-from), from: begin, to: begin + 5*time.Second}
	s.judge.count(t, s.judge.report(t, limit).Sent+jobs/5, time.Minute)

	if s.coordinator(t) == 1 { // broker 1 is the controller, and stays
		s.moveCoordinator(t, 2)
		s.judge.count(t, s.judge.report(t, limit).Sent+jobs/10, time.Minute)
	}
	killed := outage{name: "broker 2 killed", from: s.now(t)}
	set.Kill(2)
	killed.to = s.back(t, killed.from)
	s.judge.count(t, s.judge.report(t, limit).Sent+jobs/5, time.Minute)
	set.Start(2)

	s.settled(t, time.Minute)
	s.lagGone(t)
	stop(t, s.running()...)
	all := s.judge.arrivals(t)
	s.complete(t, all, jobs)
	s.explained(t, all, moved, killed)
}

// coordinator is the broker that has the group.
func (s *scene) coordinator(t *testing.T) (broker int) {
	t.Helper()
	var fault error
	eventually(t, time.Minute, func() bool {
		r, err := s.client(t).FindCoordinator(t.Context(), &kafka.FindCoordinatorRequest{Key: "dispatcher." + s.topic, KeyType: kafka.CoordinatorKeyTypeConsumer})
		if fault = err; err == nil {
			fault = r.Error
		}
		if fault == nil {
			broker = r.Coordinator.NodeID
		}
		return fault == nil
	}, func() string { return fmt.Sprintf("find the group's coordinator: %v", fault) })
	return broker
}

// moveCoordinator has a broker lead all partitions of the offsets' topic: it
// becomes their first replica, and is elected then.
func (s *scene) moveCoordinator(t *testing.T, to int) {
	t.Helper()
	admin := s.producer(t)
	topic := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	topic.Topic = offsetsTopic
	elect := kmsg.NewElectLeadersRequestTopic()
	elect.Topic = offsetsTopic
	for p := range int32(4) {
		part := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		part.Partition, part.Replicas = p, []int32{int32(to), int32(3 - to)}
		topic.Partitions = append(topic.Partitions, part)
		elect.Partitions = append(elect.Partitions, p)
	}
	assign := kmsg.NewAlterPartitionAssignmentsRequest()
	assign.TimeoutMillis, assign.Topics = 10_000, append(assign.Topics, topic)
	election := kmsg.NewElectLeadersRequest()
	election.TimeoutMillis, election.Topics = 10_000, append(election.Topics, elect)
	got := 0
	eventually(t, 30*time.Second, func() bool {
		ask(t, admin, &assign)
		ask(t, admin, &election)
		got = s.coordinator(t)
		return got == to
	}, func() string { return fmt.Sprintf("broker %d has the group, want %d", got, to) })
}

// ask sends an admin request; what it brings about is looked at by its caller.
func ask(t *testing.T, admin *kgo.Client, req kmsg.Request) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if _, err := admin.Request(ctx, req); err != nil {
		t.Logf("%T: %v", req, err)
	}
}
