package node

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"dispatcher/sender"
)

// fewConnections is a provider that refuses more connections than so many at a time.
type fewConnections struct {
	*pipeProvider

	most, open, refused atomic.Int64
}

func (f *fewConnections) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if f.open.Add(1) > f.most.Load() {
		f.open.Add(-1)
		f.refused.Add(1)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	c, err := f.pipeProvider.DialContext(ctx, network, address)
	if err != nil {
		f.open.Add(-1)
		return nil, err
	}
	return &countedConn{Conn: c, end: sync.OnceFunc(func() { f.open.Add(-1) })}, nil
}

// countedConn calls end when it is closed.
type countedConn struct {
	net.Conn

	end func()
}

func (c *countedConn) Close() error {
	c.end()
	return c.Conn.Close()
}

// A provider that refuses further connections is called on those that are open, as fast as they allow. A refused one
// opens no breaker and counts against no job.
func TestAProviderThatTakesFewConnectionsIsUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		most    int64
		latency time.Duration
	}{
		"20 of 200 ms": {20, 200 * time.Millisecond},
		"10 of 100 ms": {10, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atRate(t, 200, func(b *bubble) {
				const jobs = 2000
				p := &fewConnections{pipeProvider: &pipeProvider{dial: time.Millisecond, latency: c.latency}}
				p.most.Store(c.most)
				h, err := sender.New(sender.Options{Config: sender.Config{URL: "http://provider.test/send"}, Dial: p.DialContext})
				b.must(err)
				defer h.Close()
				b.writeMany(jobs)
				b.dispatch(h, h, 256)
				opened := false
				for begin := time.Now(); b.settled() < jobs && time.Since(begin) < 5*time.Minute; time.Sleep(20 * time.Millisecond) {
					opened = opened || !b.breaker.Closed()
				}
				if opened {
					t.Error("the breaker was open, and the provider answers")
				}
				share := p.share(int(float64(c.most)/c.latency.Seconds()), jobs/10)
				t.Logf("%.3f of what the connections allow, %d connections refused", share, p.refused.Load())
				if len(p.calls) != jobs || b.dead() != 0 || share < 0.9 {
					t.Errorf("got %d calls, %d dead letters, and %.3f of what the connections allow; want %d, none, and 0.9", len(p.calls), b.dead(), share, jobs)
				}
				if n := p.refused.Load(); n > jobs/3 {
					t.Errorf("got %d connections refused for %d calls, want few", n, jobs)
				}
			})
		})
	}
}
