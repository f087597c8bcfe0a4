package sender

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// ErrClosed is the error of a call that [Sender.Close] came before.
var ErrClosed = errors.New("the sender is closed")

// usualWait is how long a permit takes at most where nothing is in its way. A
// connection that would grow old in that time is not taken: a permit that comes
// and finds it old is lost.
const usualWait = 50 * time.Millisecond

// conn is one connection to the provider; it carries one call at a time.
type conn struct {
	client *http.ClientConn
	wire   *wire
	keep   time.Duration // how long it may be idle
	until  time.Time     // it is not taken for a call from then on; zero: for ever
	idleAt time.Time     // since when it carries nothing: its last answer, or its dial
	reused bool          // it has lain idle, and is not fresh from a dial
}

// old says that the provider may be about to close the connection.
func (c *conn) old(now time.Time) bool { return now.Sub(c.idleAt) >= c.keep }

// soonOld says that it will be before a permit has come.
func (c *conn) soonOld(now time.Time) bool { return c.old(now.Add(min(usualWait, c.keep/2))) }

// retired says that the connection has been open for as long as it may be.
func (c *conn) retired(now time.Time) bool { return !c.until.IsZero() && !now.Before(c.until) }

// usable says that a call may be made on the connection, as far as one can tell.
func (c *conn) usable(now time.Time) bool {
	return !c.soonOld(now) && !c.retired(now) && c.client.Err() == nil
}

// conns keeps the connections: those in use are known, so that Close can end
// them, and those that are idle lie on a stack. The last one used is taken
// first, so that what isn't needed grows old at the bottom.
type conns struct {
	dial   func(context.Context) (*conn, error)
	ctx    context.Context //nolint:containedctx // of the dials ahead, which end with Close
	cancel context.CancelFunc
	ahead  sync.WaitGroup // dials ahead
	moved  chan struct{}  // room for one: somebody waits, and a connection or an error has come

	mu      sync.Mutex // never held across a dial or a call
	idle    []*conn
	open    map[*conn]struct{}
	stock   stock
	waiting int // callers of await that have looked
	closed  bool
}

func newConns(dial func(context.Context) (*conn, error)) *conns {
	p := &conns{dial: dial, moved: make(chan struct{}, 1), open: make(map[*conn]struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// fresh dials a connection.
func (p *conns) fresh(ctx context.Context) (*conn, error) {
	c, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.close()
		return nil, ErrClosed
	}
	p.open[c] = struct{}{}
	return c, nil
}

// pop takes an idle connection that is usable as far as one can tell; nil:
// there is none.
func (p *conns) pop() (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	now := time.Now()
	if !p.trimLocked(now) {
		return nil, nil
	}
	n := len(p.idle)
	c := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	c.reused = true
	p.stock.took(n-1, now)
	return c, nil
}

// trimLocked drops connections off the stack until one is usable, and reports
// whether there is one.
func (p *conns) trimLocked(now time.Time) bool {
	for n := len(p.idle); n > 0; n = len(p.idle) {
		c := p.idle[n-1]
		if c.usable(now) {
			return true
		}
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		p.removeLocked(c)
	}
	return false
}

// put gives a connection back. Its idle time is the caller's to say: one that
// was taken and not used goes on growing old. The oldest idle one is looked at
// on the way: in steady work that alone keeps the stack free of what nobody
// needs any more.
func (p *conns) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.closed || c.retired(now) {
		p.removeLocked(c)
		return
	}
	if len(p.idle) > 0 && (p.idle[0].old(now) || p.idle[0].retired(now)) {
		p.removeLocked(p.idle[0])
		p.idle = append(p.idle[:0], p.idle[1:]...)
	}
	p.idle = append(p.idle, c)
	p.tellLocked()
}

// drop closes a connection that was taken.
func (p *conns) drop(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeLocked(c)
}

func (p *conns) removeLocked(c *conn) {
	delete(p.open, c)
	c.close()
}

// close ends every connection, those in use as well, and every dial ahead.
func (p *conns) close() {
	p.cancel()
	defer p.ahead.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for c := range p.open {
		p.removeLocked(c)
	}
	p.idle = nil
	p.tellLocked()
}

func (p *conns) counts() (open, idle int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open), len(p.idle)
}

// close cuts the wire first: TLS would wait for its goodbye to be written.
func (c *conn) close() {
	_ = c.wire.Close()
	_ = c.client.Close()
}
