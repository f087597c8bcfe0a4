package consumer

import (
	"errors"
	"fmt"
	"time"
)

// Status is a snapshot of a consumer.
type Status struct {
	Joined     bool  // this node has its part, even an empty one, of every topic and retry topic
	Left       error // why the node left its groups; nil: it is in them
	Partitions []PartitionStatus
	Lag        int64 // records that are not complete, over all partitions of this node, those of retry topics included
	InFlight   int   // jobs that the pacer or a worker has taken, or of which a record is being written
	Lanes      []LaneStatus
	// LastError is the most recent fault; nil: none since a group was last joined, or it is
	// over. It never holds a payload or a secret.
	LastError error
	// Faulty is since when the fetches of a partition, the commits of a topic or the writes
	// of results have failed without a success between; of several, the longest. Zero: none
	// fails. Fault is its last error.
	Faulty time.Time
	Fault  error
}

// readyPatience is how long a fault may last before the node is unready.
const readyPatience = 10 * time.Second

// kafkaFault is what Kafka fails to do for this node: it lets it join no group, or [Status.Fault] has lasted for 10 seconds. nil:
// nothing, or the node left its groups.
func (s Status) kafkaFault() error {
	lasts := time.Since(s.Faulty)
	switch {
	case s.Left == nil && !s.Joined && s.LastError != nil:
		return fmt.Errorf("not joined: %w", s.LastError)
	case s.Left == nil && s.Fault != nil && lasts >= readyPatience:
		return fmt.Errorf("failing for %v: %w", lasts.Round(time.Second), s.Fault)
	}
	return nil
}

// Ready says why the node is not ready: it left its groups, has no part of a topic, or
// [Status.Fault] has lasted for 10 seconds. nil: it is ready.
func (s Status) Ready() error {
	if s.Left != nil {
		return s.Left
	}
	if err := s.kafkaFault(); err != nil || s.Joined {
		return err
	}
	return errors.New("not joined yet")
}

// Note says why a node that is ready has nothing to do; empty: it has partitions. It is for
// people, in /readyz.
func (s Status) Note() string {
	if s.Joined && len(s.Partitions) == 0 {
		return "no partition: the other nodes of the group have all of them; this node waits for one"
	}
	return ""
}

// Status returns a snapshot. It is cheap, and safe to call at any time.
func (c *Consumer) Status() Status {
	var s Status
	lanes, partitions, working := c.scheduler.Status()
	s.Lanes, s.Partitions = lanes, partitions
	s.Joined = working == len(c.sources) // a topic has one assignment at a time
	for _, l := range s.Lanes {
		s.InFlight += l.InFlight
	}
	s.LastError, s.Faulty, s.Fault = c.health.Read()
	_, s.Left = c.membership.read()
	for _, p := range s.Partitions {
		s.Lag += p.Lag
	}
	return s
}
