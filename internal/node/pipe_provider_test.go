package node

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// pipeProvider is a provider that is reached by pipes instead of sockets.
type pipeProvider struct {
	dial    time.Duration // a new connection takes at least so long
	jitter  time.Duration // and up to so much longer
	latency time.Duration // of an answer
	once    bool          // a connection carries one call
	keeps   time.Duration // it closes a connection that carries no call for so long; 0: never
	ill     bool          // every other connection leads to a backend that answers 503 at once
	down    atomic.Bool   // no connection can be opened

	mu      sync.Mutex
	dials   int
	dialing int
	most    int // dials at once
	calls   []time.Time
	failed  int // calls of the ill backend
}

func (f *pipeProvider) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	f.count(1)
	defer f.count(-1)
	timer := time.NewTimer(f.dial + rand.N(f.jitter+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-timer.C:
	}
	if f.down.Load() {
		return nil, &net.OpError{Op: "dial", Err: io.ErrUnexpectedEOF}
	}
	near, far := net.Pipe()
	if f.ill && f.dialed()%2 == 1 {
		go f.fail(far)
	} else {
		go f.serve(far)
	}
	return near, nil
}

// fail is the ill backend. It keeps its connections.
func (f *pipeProvider) fail(c net.Conn) {
	defer func() { _ = c.Close() }()
	for br := bufio.NewReader(c); ; {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		f.mu.Lock()
		f.failed++
		f.mu.Unlock()
		_, _ = io.Copy(io.Discard, req.Body)
		if _, err := io.WriteString(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}

func (f *pipeProvider) count(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dialing += n
	f.dials += max(n, 0)
	f.most = max(f.most, f.dialing)
}

func (f *pipeProvider) dialed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dials
}

func (f *pipeProvider) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	br := bufio.NewReader(c)
	for {
		if f.keeps > 0 {
			_ = c.SetReadDeadline(time.Now().Add(f.keeps))
		}
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		f.mu.Lock()
		f.calls = append(f.calls, time.Now())
		f.mu.Unlock()
		_, _ = io.Copy(io.Discard, req.Body)
		time.Sleep(f.latency)
		answer := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
		if f.once {
			answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
		}
		if _, err := io.WriteString(c, answer); err != nil || f.once {
			return
		}
	}
}

// share is the share of a rate that was used, from the call with this index on.
func (f *pipeProvider) share(rate, first int) float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls[first:]
	return float64(len(calls)-1) / calls[len(calls)-1].Sub(calls[0]).Seconds() / float64(rate)
}
