// Package health remembers which activities of a consumer are failing, for [Health.Read] and
// so that the log warns once a minute. It does nothing about a fault: each activity tries
// again by itself. It starts no goroutine.
package health

import (
	"fmt"
	"sync"
	"time"
)

// warnInterval is how long the log is silent about a fault that lasts.
const warnInterval = time.Minute

// Source is an activity that can fail and work again by itself.
type Source struct {
	Doing     string // one of the constants below
	Topic     string
	Partition int // or NoPartition
}

// The activities.
const (
	Fetch       = "fetch"
	Commit      = "commit"
	Results     = "results"
	DeadLetters = "dead letters"
)

// NoPartition is the partition of a source that is a whole topic.
const NoPartition = -1

// String names the source in an error.
func (s Source) String() string {
	if s.Partition == NoPartition {
		return s.Doing + " of topic " + s.Topic
	}
	return fmt.Sprintf("%s of topic %s, partition %d", s.Doing, s.Topic, s.Partition)
}

// Health is the state of all sources. Its zero value says that all of them work. Its
// methods may be called from any goroutine.
type Health struct {
	mu     sync.Mutex
	last   error
	of     Source // that last is of; zero: of none
	faults map[Source]*fault
}

// fault is the state of a source that is failing.
type fault struct {
	since  time.Time
	warned time.Time // when the log last warned of it; zero: not yet
	err    error
}

// Failed notes a fault that is not of a source.
func (h *Health) Failed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.of = err, Source{}
}

// Joined notes that this node has its part of a topic, and drops the last fault.
func (h *Health) Joined() { h.Failed(nil) }

// Fails notes that a source failed. It returns whether its caller is to log a warning: once
// the fault has lasted longer than patience, and then once a minute.
func (h *Health) Fails(from Source, err error, patience time.Duration) (warn bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	f := h.faults[from]
	if f == nil {
		f = &fault{since: now}
		if h.faults == nil {
			h.faults = make(map[Source]*fault)
		}
		h.faults[from] = f
	}
	f.err = fmt.Errorf("%v: %w", from, err)
	h.last, h.of = f.err, from
	if now.Sub(f.since) < patience || now.Sub(f.warned) < warnInterval {
		return false
	}
	f.warned = now
	return true
}

// Works notes that a source works. If the last fault was of the source, it is over.
func (h *Health) Works(from Source) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.faults, from)
	if h.of == from {
		h.last = nil
	}
}

// Forget drops a topic's faults: they belong to an assignment that is over.
func (h *Health) Forget(topic string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for from := range h.faults {
		if from.Topic == topic {
			delete(h.faults, from)
		}
	}
	if h.of.Topic == topic {
		h.last, h.of = nil, Source{}
	}
}

// Read returns the last fault that is not over, and the one that has lasted longest.
func (h *Health) Read() (last error, since time.Time, lasting error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.faults {
		if lasting == nil || f.since.Before(since) {
			since, lasting = f.since, f.err
		}
	}
	return h.last, since, lasting
}
