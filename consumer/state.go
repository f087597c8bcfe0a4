package consumer

import (
	"fmt"
	"sync"
	"time"
)

// tellAgain is how long the log is silent about a fault that lasts.
const tellAgain = time.Minute

// source is what can fail and work again by itself.
type source struct {
	what      string
	topic     string
	partition int
}

const (
	sourceFetch  = "fetch"
	sourceCommit = "commit"
	noPartition  = -1
)

func (s source) String() string {
	if s.partition == noPartition {
		return s.what + " of topic " + s.topic
	}
	return fmt.Sprintf("%s of topic %s, partition %d", s.what, s.topic, s.partition)
}

// trouble is a source that has been failing.
type trouble struct {
	since time.Time
	told  time.Time // when the log last heard of it; zero: not yet
	err   error
}

// state is what is remembered for [Consumer.Status] beside the hub.
type state struct {
	mu       sync.Mutex
	err      error
	troubles map[source]*trouble
}

// failed notes a fault that is not of a source.
func (s *state) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// joined notes that a group gave this node its part.
func (s *state) joined() { s.failed(nil) }

// fails notes that a source failed. It returns whether that is to be told: once
// it has lasted longer than patience, and then once a minute.
func (s *state) fails(from source, err error, patience time.Duration) (tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	t := s.troubles[from]
	if t == nil {
		t = &trouble{since: now}
		if s.troubles == nil {
			s.troubles = make(map[source]*trouble)
		}
		s.troubles[from] = t
	}
	t.err = fmt.Errorf("%v: %w", from, err)
	s.err = t.err
	if now.Sub(t.since) < patience || now.Sub(t.told) < tellAgain {
		return false
	}
	t.told = now
	return true
}

// works notes that a source does its work.
func (s *state) works(from source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.troubles, from)
}

// forget drops a topic's troubles: they belong to an assignment that is over.
func (s *state) forget(topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for from := range s.troubles {
		if from.topic == topic {
			delete(s.troubles, from)
		}
	}
}

// read returns the last fault, and the one that has lasted longest.
func (s *state) read() (last error, since time.Time, lasting error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.troubles {
		if lasting == nil || t.since.Before(since) {
			since, lasting = t.since, t.err
		}
	}
	return s.err, since, lasting
}
