package setupcheck

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"dispatcher/consumer"
	"dispatcher/internal/timetext"
)

// partitions compares the topics with the nodes: a partition has one node at a time.
func partitions(ctx context.Context, s *setup) (found []Finding, err error) {
	if s.Partitions == nil || s.nodes < 2 {
		return nil, nil
	}
	of, err := s.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	for _, topic := range slices.Sorted(maps.Keys(of)) {
		if n := of[topic]; n < s.nodes {
			found = append(found, warn("add partitions to the topic, or run fewer nodes",
				"topic %s has %d partitions for %d nodes: %d of them get no jobs of it", topic, n, s.nodes, s.nodes-n)...)
		}
	}
	return found, nil
}

// retention looks for topics that keep jobs for longer than Kafka keeps the offsets of a fleet that stands still.
func retention(ctx context.Context, s *setup) (found []Finding, err error) {
	if s.Retention == nil {
		return nil, nil
	}
	offsets, records, err := s.Retention(ctx)
	if err != nil || offsets == 0 {
		return nil, err
	}
	then := "calls all jobs that the topic still holds again"
	if s.Config.Kafka.StartAt == consumer.StartLast {
		then = "passes over the jobs that wait"
	}
	for _, topic := range slices.Sorted(maps.Keys(records)) {
		if kept := records[topic]; kept > offsets {
			found = append(found, warn(
				fmt.Sprintf("raise the brokers' offsets.retention.minutes above retention.ms of %s, or lower that to %d", topic, offsets.Milliseconds()),
				"topic %s keeps its records for longer than the %s for which Kafka keeps the offsets of a group without nodes: a fleet that stood still for so long %s",
				topic, timetext.Short(offsets), then)...)
		}
	}
	return found, nil
}

const (
	typical = 300 * time.Millisecond // a call takes so long where nothing is known of it
	around  = 10 * time.Millisecond  // a worker has a job for as much longer
)

// workers compares the workers of a node with the rate that it is to carry, if all nodes carry the same. Jobs that
// count several units are fewer than the limit says, so nothing is known of their number.
func workers(_ context.Context, s *setup) ([]Finding, error) {
	c := s.contract
	if c.LargestCost() > 1 {
		return nil, nil
	}
	known := "as the calls up to now did"
	latency := s.Latency
	if latency == 0 {
		latency, known = typical, "which is usual"
	}
	if timeout := s.Config.Sender.HTTP.Timeout; latency > timeout {
		latency, known = timeout, "the longest that sender.http.timeout allows"
	}
	nodes := max(1, s.nodes)
	rate := kindOf(s.algorithm).Share(c) * float64(c.Cap) / c.Window.Seconds() / float64(nodes)
	need := rate * (latency + around).Seconds()
	if c.MaxInFlight > 0 {
		need = min(need, float64(c.MaxInFlight)/float64(nodes))
	}
	if have := s.Config.Kafka.Workers; need > float64(have) {
		return warn(fmt.Sprintf("raise kafka.workers to %.0f or more, which leaves room for variation, or run more nodes", math.Ceil(2*need)),
			"%d workers are too few: %.0f are busy at %.0f calls a second on each of %d nodes if a call takes %s, %s", have, math.Ceil(need), rate, nodes, latency, known), nil
	}
	return nil, nil
}
