package consumer

import (
	"errors"
	"fmt"
	"time"
)

// Status is what a consumer is doing now.
type Status struct {
	Joined     bool  // every topic's and tier's group has given this node its part, be it empty
	Left       error // why the node stands aside; nil: it doesn't
	Partitions []PartitionStatus
	Lag        int64 // records that are not complete, over all partitions of this node, those of tiers included
	InFlight   int   // jobs handed out and not settled
	Lanes      []LaneStatus
	// LastError is the most recent fault; nil: none since a group was last
	// joined. It never holds a payload or a secret.
	LastError error
	// Faulty is since when the fetches of a partition or the commits of a topic
	// have failed without a success between; of several, the longest. Zero: none
	// does. Fault is what it said last.
	Faulty time.Time
	Fault  error
}

// readyPatience is how long a fault may last before the node counts as unready.
const readyPatience = 10 * time.Second

// Ready says why the node does not work as it should: it stands aside, has no
// part of a topic, or fetches or commits have been failing for 10 seconds. nil: it does.
func (s Status) Ready() error {
	switch {
	case s.Left != nil:
		return s.Left
	case !s.Joined && s.LastError != nil:
		return fmt.Errorf("not joined: %w", s.LastError)
	case !s.Joined:
		return errors.New("not joined yet")
	case s.Fault == nil:
		return nil
	}
	if lasts := time.Since(s.Faulty); lasts >= readyPatience {
		return fmt.Errorf("failing for %v: %w", lasts.Round(time.Second), s.Fault)
	}
	return nil
}

// Note says, beside [Status.Ready], why the node has nothing to do although it is
// ready; empty: it has partitions. It is for people, and shown in /readyz.
func (s Status) Note() string {
	if s.Joined && len(s.Partitions) == 0 {
		return "no partition: the other nodes of the group have all of them; this node waits for one"
	}
	return ""
}

// LaneStatus is one lane on this node, in order of priority.
type LaneStatus struct {
	Lane    string
	InHand  int   // jobs handed out and not settled
	Ready   int   // jobs that only wait for a slot
	Waiting int64 // records of its topics that are not complete, less those in hand and asleep
	Asleep  int   // jobs that wait in memory for their time
	Delayed int64 // records in its retry tiers that are not complete, less those in hand and asleep
	// Oldest is how long the oldest job has been waiting on this node, in hand or
	// not, since it was written or since it was due; 0: none waits.
	Oldest time.Duration
	// Rate is how many jobs a second were settled for good of late.
	Rate float64
}

// Drain is the time in seconds until all that waits or is in hand would be
// settled at the present rate; +Inf where nothing is settled at present.
func (s LaneStatus) Drain() float64 {
	left := float64(s.Waiting) + float64(s.InHand)
	if left == 0 {
		return 0
	}
	return left / s.Rate
}

// PartitionStatus is one partition that this node works.
type PartitionStatus struct {
	Topic     string
	Lane      string
	Partition int
	Committed int64 // -1: nothing yet
	Lag       int64 // last stable offset less the committed one
	Open      int   // offsets fetched and not complete
}

// Status returns a snapshot. It is cheap, and safe to call at any time.
func (c *Consumer) Status() Status {
	s := c.hub.status(len(c.feeds))
	s.LastError, s.Faulty, s.Fault = c.state.read()
	_, s.Left = c.membership.read()
	for _, p := range s.Partitions {
		s.Lag += p.Lag
	}
	return s
}

func (h *hub) status(topics int) Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	var s Status
	now := time.Now()
	at := make(map[*lane]*LaneStatus, len(h.lanes))
	s.Lanes = make([]LaneStatus, len(h.lanes))
	for i, l := range h.lanes {
		s.Lanes[i] = LaneStatus{Lane: l.name, InHand: l.inHand, Ready: l.count, Rate: l.done.perSecond(now)}
		at[l] = &s.Lanes[i]
		s.InFlight += l.inHand
	}
	joined := 0 // a topic has one assignment at a time
	for a := range h.live {
		if !a.draining {
			joined++
		}
		for _, p := range a.parts {
			at[p.lane].count(p, now)
			s.Partitions = append(s.Partitions, PartitionStatus{
				Topic: p.topic, Lane: p.lane.name, Partition: p.id, Committed: p.committed, Lag: p.lag(), Open: p.tracker.Open(),
			})
		}
	}
	s.Joined = joined == topics
	return s
}

// lag counts from the commit point where nothing is committed yet.
func (p *partition) lag() int64 {
	from := p.committed
	if from < 0 {
		from = p.tracker.Low()
	}
	return max(p.stable-from, 0)
}

// count takes in a partition's offsets that are not complete, as far as is known.
func (s *LaneStatus) count(p *partition, now time.Time) {
	s.Oldest = max(s.Oldest, p.age(now))
	backlog := int64(p.tracker.Open()) + max(p.stable-p.tracker.End(), 0) - int64(p.taken+p.asleep)
	s.Asleep += p.asleep
	if p.tier > 0 {
		s.Delayed += backlog
	} else {
		s.Waiting += backlog
	}
}
