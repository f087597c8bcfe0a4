package consumer_test

import (
	"context"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/consumer/deadletter"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// stall withholds the answers to produce requests, or all answers, until it is over. The
// requests arrive, as they do at a broker that hangs for a while.
type stall struct {
	over  chan struct{}
	begun atomic.Int32 // produce requests
	all   atomic.Bool  // keep all answers back
}

func (w *fleet) stall() *stall { return &stall{over: make(chan struct{})} }

func (s *stall) dial(w *fleet) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := w.net.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &stalledConn{Conn: c, stall: s, closed: make(chan struct{})}, nil
	}
}

type stalledConn struct {
	net.Conn
	stall    *stall
	closed   chan struct{}
	once     sync.Once
	produces atomic.Bool
	deadline atomic.Pointer[time.Time]
}

// Write expects that the client writes the head of a request in one piece.
func (c *stalledConn) Write(b []byte) (int, error) {
	if len(b) >= 8 && b[4] == 0 && b[5] == byte(kmsg.Produce) && b[6] == 0 && b[7] >= 3 {
		c.produces.Store(true)
		c.stall.begun.Add(1)
	}
	return c.Conn.Write(b)
}

func (c *stalledConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil || !c.produces.Load() && !c.stall.all.Load() {
		return n, err
	}
	for {
		select {
		case <-c.stall.over:
			return n, nil
		case <-c.closed:
			return 0, net.ErrClosed
		case <-time.After(10 * time.Millisecond): // a deadline may come later than the read
		}
		if at := c.deadline.Load(); at != nil && !at.IsZero() && !at.After(time.Now()) {
			return 0, os.ErrDeadlineExceeded
		}
	}
}

func (c *stalledConn) SetDeadline(t time.Time) error {
	c.deadline.Store(&t)
	return c.Conn.SetDeadline(t)
}

func (c *stalledConn) SetReadDeadline(t time.Time) error {
	c.deadline.Store(&t)
	return c.Conn.SetReadDeadline(t)
}

func (c *stalledConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// retryAll starts a node that sends each of some jobs to a retry topic, and returns once a
// broker that stalls has the first record.
func (w *fleet) retryAll(jobs int, session time.Duration) (*stall, *node) {
	s := w.stall()
	o := w.options()
	o.Order, o.RetryTopics = consumer.OrderNone, []time.Duration{time.Hour}
	o.Session, o.Drain = session, 2*time.Second
	o.Dial = s.dial(w)
	n := w.start(o, func(d *consumer.Delivery) {
		go d.RetryLater(time.Now().Add(2*time.Hour), deadletter.Failure{Class: deadletter.ClassUnavailable, Calls: 1, Failures: 1})
	})
	w.until("joined", func() bool { return n.c.Status().Joined })
	w.produce("jobs", numbered(0, jobs)...)
	w.until("the first record is on its way", func() bool { return s.begun.Load() > 0 })
	return s, n
}

// A broker withholds the answers to produce requests for longer than any of our timeouts. Each
// job is on its retry topic once, and is called once.
func TestAStallWritesNoRetryTwice(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		const jobs = 20
		s, n := w.retryAll(jobs, 10*time.Second)
		time.Sleep(18 * time.Second)
		if got, _ := w.committed("jobs", 0); got > 0 {
			t.Errorf("got offset %d committed before an acknowledgement", got)
		}
		close(s.over)
		w.waitFor("jobs", 0, jobs)
		w.ok(n.end())
		if got := len(w.records("jobs.retry.1h")); got != jobs || len(n.values()) != jobs {
			t.Errorf("got %d records in the retry topic and %d hand-outs, want %d of each", got, len(n.values()), jobs)
		}
	})
}

// A broker withholds all answers for longer than the drain, so the member's generation ends.
// The drain awaits the records, so each job is on its retry topic once. A broker that hung for
// long no longer leads its partitions for a moment: it refuses a record that it has written.
func TestABrokerThatStallsWritesNoRetryTwice(t *testing.T) {
	t.Parallel()
	for name, refusals := range map[string]int{"leads on": 0, "leads again later": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, 1, func(w *fleet) {
				const jobs = 20
				s, n := w.retryAll(jobs, 30*time.Second)
				s.all.Store(true)
				time.Sleep(18 * time.Second)
				if refusals > 0 {
					fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "jobs.retry.1h", Err: kerr.NotLeaderForPartition, Count: refusals})
					defer func() {
						if fault.Hits() != refusals {
							t.Errorf("got %d refusals, want %d", fault.Hits(), refusals)
						}
					}()
				}
				close(s.over)
				w.waitFor("jobs", 0, jobs)
				w.ok(n.end())
				if got := len(w.records("jobs.retry.1h")); got != jobs {
					t.Errorf("got %d records in the retry topic of %d hand-outs, want %d", got, len(n.values()), jobs)
				}
			})
		})
	}
}

// If the broker never answers again, a stop takes no longer than the drain and the last commit.
func TestAStopDoesNotWaitForAStalledBroker(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		s := w.stall()
		o := w.withResults()
		o.Session, o.Drain = 10*time.Second, 2*time.Second
		o.Dial = s.dial(w)
		n := w.startSettling(o, accepted)
		w.until("joined", func() bool { return n.c.Status().Joined })
		w.produce("jobs", numbered(0, 20)...)
		w.until("the first result is on its way", func() bool { return s.begun.Load() > 0 })
		s.all.Store(true)
		began := time.Now()
		n.stop()
		<-n.over
		if took := time.Since(began); took > 25*time.Second {
			t.Errorf("got a stop after %v, want 25s at most", took)
		} else {
			t.Logf("the stop took %v", took)
		}
		close(s.over)
	})
}
