package consumer

import "sync"

// Status is what a consumer is doing now.
type Status struct {
	Joined     bool // every topic's group has given this node its part, be it empty
	Partitions []PartitionStatus
	Lag        int64 // records that are not complete, over all partitions of this node
	InHand     int   // jobs handed out and not settled
	// LastError is the most recent fault; nil: none since every group was
	// joined. It never holds a payload or a secret.
	LastError error
}

// PartitionStatus is one partition that this node works.
type PartitionStatus struct {
	Topic     string
	Partition int
	Committed int64 // -1: nothing yet
	Lag       int64 // last stable offset less the committed one
	Open      int   // offsets fetched and not complete
}

// Status returns a snapshot. It is cheap, and safe to call at any time.
func (c *Consumer) Status() Status {
	s := c.hub.status()
	s.Joined, s.LastError = c.state.read(len(c.opts.Topics))
	for _, p := range s.Partitions {
		s.Lag += p.Lag
	}
	return s
}

func (h *hub) status() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := Status{InHand: h.inHand}
	for a := range h.live {
		for _, p := range a.parts {
			s.Partitions = append(s.Partitions, PartitionStatus{
				Topic: p.topic, Partition: p.id, Committed: p.committed, Lag: p.lag(), Open: p.ledger.open,
			})
		}
	}
	return s
}

// lag counts from the commit point where nothing is committed yet.
func (p *partition) lag() int64 {
	from := p.committed
	if from < 0 {
		from = p.ledger.base
	}
	return max(p.stable-from, 0)
}

// state is what is remembered for [Consumer.Status] beside the hub.
type state struct {
	mu     sync.Mutex
	joined map[string]bool
	err    error
}

func (s *state) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// join notes that a topic's group gave or took away this node's part.
func (s *state) join(topic string, joined bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.joined == nil {
		s.joined = make(map[string]bool)
	}
	if s.joined[topic] = joined; joined {
		s.err = nil
	}
}

func (s *state) read(topics int) (joined bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, j := range s.joined {
		if j {
			n++
		}
	}
	return n == topics, s.err
}
