package consumer_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/consumer"
)

// wires is a network that can be cut and restored.
type wires struct {
	dial func(context.Context, string, string) (net.Conn, error)

	mu   sync.Mutex
	down bool
	all  []net.Conn
}

func (w *wires) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return nil, errors.New("connection refused")
	}
	c, err := w.dial(ctx, network, addr)
	if err == nil {
		w.all = append(w.all, c)
	}
	return c, err
}

func (w *wires) cut(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
	for _, c := range w.all {
		_ = c.Close()
	}
	w.all = nil
}

// cutOff is a node whose jobs were settled while no broker answers.
func (w *fleet) cutOff(jobs int) (*node, *wires) {
	o := w.options()
	net := &wires{dial: w.net.DialContext}
	o.Dial = net.connect
	w.produce("jobs", numbered(0, jobs)...)
	n := w.start(o, nil)
	held := n.holding(jobs)
	net.cut(true)
	for _, d := range held {
		d.Done(consumer.Outcome{})
	}
	return n, net
}

// Jobs that are settled while no broker answers are committed when one does: the member keeps
// its place, so no job is handed out again.
func TestSettledJobsAreCommittedOnceABrokerIsBack(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		n, net := w.cutOff(20)
		time.Sleep(8 * time.Second) // less than the session, more than the last commit had before it
		net.cut(false)
		w.waitFor("jobs", 0, 20)
		w.produce("jobs", numbered(20, 25)...)
		w.until("the member works on", func() bool { return len(n.values()) >= 25 })
		synctest.Wait()
		if got := len(n.values()); got != 25 {
			t.Errorf("got %d jobs handed out, want each of 25 once", got)
		}
		for _, d := range n.holding(5) {
			d.Done(consumer.Outcome{})
		}
		w.ok(n.end())
	})
}

// A node that stops while no broker answers does not wait for one.
func TestAStopDoesNotWaitForBrokers(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		n, _ := w.cutOff(5)
		time.Sleep(20 * time.Second)
		begin := time.Now()
		w.ok(n.end())
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("the stop took %v, want at most 10s", took)
		}
	})
}
