package provider

import (
	"slices"
	"sync"
	"time"
)

// Arrival is one call as the provider saw it.
type Arrival struct {
	At     time.Duration // since the provider's epoch, monotonic
	Key    string        // the idempotency key; empty: there was none
	Status int           // of the answer; 0: none
	Node   int           // the sender, from the header [NodeHeader]; 0: not stated
}

// NodeHeader may hold the sending node's number, from 1 to 255.
const NodeHeader = "X-Node"

// maxKey is how many bytes of a key are kept.
const maxKey = 1 << 10

// arrivalLog holds millions of arrivals. It grows by chunks and never copies them: the
// growth of one large slice would hold up the calls.
type arrivalLog struct {
	mu     sync.Mutex
	chunks [][]Arrival
	total  int
}

const chunkSize = 4096

func (l *arrivalLog) add(a Arrival) {
	a.Key = a.Key[:min(len(a.Key), maxKey)]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total%chunkSize == 0 {
		l.chunks = append(l.chunks, make([]Arrival, 0, chunkSize))
	}
	last := &l.chunks[len(l.chunks)-1]
	*last = append(*last, a)
	l.total++
}

func (l *arrivalLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.chunks, l.total = nil, 0
}

func (l *arrivalLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// since counts the arrivals after t. It reads from the end, so it costs no more than the
// arrivals that it counts.
func (l *arrivalLog) since(t time.Duration) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range slices.Backward(l.chunks) {
		for _, a := range slices.Backward(c) {
			if a.At < t {
				return n
			}
			n++
		}
	}
	return n
}

// all copies the log. It takes only the list of chunks under the lock, so that arrivals
// go on meanwhile. The arrivals that a chunk held then never change.
func (l *arrivalLog) all() []Arrival {
	l.mu.Lock()
	chunks := slices.Clone(l.chunks)
	l.mu.Unlock()
	return slices.Concat(chunks...)
}
