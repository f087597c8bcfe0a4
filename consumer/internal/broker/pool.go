package broker

import (
	"slices"
	"sync"
	"time"
)

// maxIdle is how long an idle connection is kept.
const maxIdle = time.Minute

// connPool holds a client's idle connections, by the broker's address.
type connPool struct {
	mu     sync.Mutex
	idle   map[string][]*rawConn
	closed bool
}

// take returns an idle connection to a broker; nil: there is none.
func (p *connPool) take(addr string) *rawConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.idle[addr]
	if len(all) == 0 {
		return nil
	}
	w := all[len(all)-1]
	p.idle[addr] = all[:len(all)-1]
	return w
}

// put keeps a connection for the next request, and closes connections that were idle for
// longer than maxIdle.
func (p *connPool) put(addr string, w *rawConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = w.conn.Close()
		return
	}
	w.idleSince = time.Now()
	if p.idle == nil {
		p.idle = make(map[string][]*rawConn)
	}
	p.idle[addr] = append(p.idle[addr], w)
	for other, all := range p.idle {
		p.idle[other] = slices.DeleteFunc(all, func(old *rawConn) bool {
			stale := w.idleSince.Sub(old.idleSince) > maxIdle
			if stale {
				_ = old.conn.Close()
			}
			return stale
		})
	}
}

func (p *connPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, all := range p.idle {
		for _, w := range all {
			_ = w.conn.Close()
		}
	}
	p.idle = nil
}
