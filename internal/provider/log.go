package provider

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Arrival is one call as the provider saw it.
type Arrival struct {
	At     time.Duration // since the provider's epoch, monotonic
	Key    string        // the idempotency key; empty: there was none
	Status int           // of the answer, or of that which is being given; 0: none
	Node   int           // the sender, from the header [NodeHeader]; 0: not stated
}

// Units is what the call counts: 1, or n where its key ends in "*n", n from 1 to 1000. So
// a test states what its jobs cost.
func (a Arrival) Units() int {
	n, err := strconv.Atoi(a.Key[strings.LastIndexByte(a.Key, '*')+1:])
	if err != nil || !strings.Contains(a.Key, "*") || n < 1 || n > maxUnits {
		return 1
	}
	return n
}

const maxUnits = 1000

// NodeHeader may hold the sending node's number, from 1 to 255.
const NodeHeader = "X-Node"

// maxKey is how many bytes of a key are kept.
const maxKey = 1 << 10

// arrivalLog holds millions of arrivals. It grows by chunks and never copies them: the
// growth of one large slice would hold up the calls.
type arrivalLog struct {
	mu     sync.Mutex
	chunks []*chunk // all but the last are full
	total  int
	late   bool // the time of at least one was that of a read, which may have been late
}

const chunkSize = 4096

type chunk struct {
	n       int
	records [chunkSize]record
	keys    []byte // one after the other: no pointers for the collector to follow
}

type record struct {
	at     int64 // ns
	offset uint32
	status atomic.Uint32 // the one field that changes later
	length uint16
	node   uint8
}

// unanswered says that the call got no answer after all.
func (r *record) unanswered() { r.status.Store(0) }

// add records a call with the status that it is to get.
func (l *arrivalLog) add(at stamp, key string, status int, node uint8) *record {
	key = key[:min(len(key), maxKey)]
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.chunks) == 0 || l.chunks[len(l.chunks)-1].n == chunkSize {
		l.chunks = append(l.chunks, new(chunk))
	}
	c := l.chunks[len(l.chunks)-1]
	r := &c.records[c.n]
	r.at, r.offset, r.length, r.node = int64(at.at), uint32(len(c.keys)), uint16(len(key)), node
	r.status.Store(uint32(min(max(status, 0), math.MaxUint16)))
	c.keys = append(c.keys, key...)
	c.n++
	l.total++
	l.late = l.late || at.late
	return r
}

func (l *arrivalLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.chunks, l.total, l.late = nil, 0, false
}

func (l *arrivalLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// mayBeLate reports whether this process may have recorded a call later than it came.
func (l *arrivalLog) mayBeLate() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.late
}

// since counts the units of the arrivals after t. It reads from the end, so it costs no more than the
// arrivals that it counts.
func (l *arrivalLog) since(t time.Duration) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range slices.Backward(l.chunks) {
		for i := c.n - 1; i >= 0; i-- {
			r := &c.records[i]
			if r.at < int64(t) {
				return n
			}
			n += Arrival{Key: string(c.keys[r.offset : r.offset+uint32(r.length)])}.Units()
		}
	}
	return n
}

// forget drops the oldest chunks, as long as all of their arrivals came before t. It returns how many arrivals it dropped.
func (l *arrivalLog) forget(t time.Duration) (dropped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.chunks) > 1 && l.chunks[0].records[chunkSize-1].at < int64(t) {
		dropped += chunkSize
		l.chunks[0] = nil // its memory goes, though the list stays
		l.chunks = l.chunks[1:]
	}
	l.total -= dropped
	return dropped
}

// all copies the log. It takes only the list of chunks under the lock, so that arrivals
// go on meanwhile. Of the records that a chunk held then only the status changes.
func (l *arrivalLog) all() []Arrival {
	l.mu.Lock()
	chunks := make([]chunkView, len(l.chunks))
	for i, c := range l.chunks {
		chunks[i] = chunkView{c.records[:c.n], c.keys}
	}
	out := make([]Arrival, 0, l.total)
	l.mu.Unlock()
	for _, c := range chunks {
		keys := string(c.keys)
		for i := range c.records {
			r := &c.records[i]
			out = append(out, Arrival{
				At: time.Duration(r.at), Key: keys[r.offset : r.offset+uint32(r.length)], Status: int(r.status.Load()), Node: int(r.node),
			})
		}
	}
	return out
}

type chunkView struct {
	records []record
	keys    []byte
}
