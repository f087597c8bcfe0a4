package conns

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"
)

// ErrClosed is the error of a call after [Pool.Close].
var ErrClosed = errors.New("the sender is closed")

// Pool keeps the connections. Those in use are known, so that Close can end them.
// Its methods may be called from any goroutine.
type Pool struct {
	opts      Options
	transport *http.Transport
	ctx       context.Context //nolint:containedctx // of the dials ahead, which end with Close
	cancel    context.CancelFunc
	ahead     sync.WaitGroup // dials ahead
	progress  chan struct{}  // room for one: a connection or an error has come
	unused    *time.Timer    // calls closeUnused

	mu     sync.Mutex // never held across a dial or a call
	idle   []*Conn    // a stack
	open   map[*Conn]struct{}
	spares spares
	timed  bool // unused runs
	closed bool
}

// New makes a pool without connections.
func New(o Options) *Pool {
	p := &Pool{opts: o, transport: newTransport(o), progress: make(chan struct{}, 1), open: make(map[*Conn]struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.unused, p.timed = time.AfterFunc(o.IdleTimeout, p.closeUnused), true
	return p
}

// Dial opens a connection. The caller gives it back with Put, Finish or Drop.
func (p *Pool) Dial(ctx context.Context) (*Conn, error) {
	c, err := p.dial(ctx)
	p.opts.OnDial(ctx, c, err)
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

// Get takes an idle connection that looks usable; nil: there is none.
func (p *Pool) Get() (*Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	now := time.Now()
	if !p.trimLocked(now) {
		return nil, nil
	}
	c := p.popLocked()
	p.spares.took(len(p.idle), now)
	return c, nil
}

func (p *Pool) popLocked() *Conn {
	last := len(p.idle) - 1
	c := p.idle[last]
	p.idle[last] = nil
	p.idle = p.idle[:last]
	return c
}

// trimLocked drops connections off the stack until one is usable, and reports
// whether there is one.
func (p *Pool) trimLocked(now time.Time) bool {
	for len(p.idle) > 0 {
		if p.idle[len(p.idle)-1].usable(now) {
			return true
		}
		p.removeLocked(p.popLocked())
	}
	return false
}

// Put gives a connection back on which no call was made. Its idle time goes on. Put
// also drops the oldest idle connection if it is too old: in steady work that alone
// keeps the stack free of connections that nobody needs.
func (p *Pool) Put(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.closed || c.retired(now) {
		p.removeLocked(c)
		return
	}
	if len(p.idle) > 0 && (p.idle[0].idleTooLong(now) || p.idle[0].retired(now)) {
		p.removeLocked(p.idle[0])
		p.idle = append(p.idle[:0], p.idle[1:]...)
	}
	p.pushLocked(c)
	p.notify()
}

// pushLocked puts a connection on the stack.
func (p *Pool) pushLocked(c *Conn) {
	p.idle = append(p.idle, c)
	if !p.timed {
		p.timed = true
		p.unused.Reset(p.opts.IdleTimeout)
	}
}

// closeUnused closes the idle connections that are too old, and comes back when the next one is. A call does not
// touch its timer.
func (p *Pool) closeUnused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	next := p.opts.IdleTimeout
	p.idle = slices.DeleteFunc(p.idle, func(c *Conn) bool {
		left := c.mayIdle(now)
		if left <= 0 {
			p.removeLocked(c)
			return true
		}
		next = min(next, left)
		return false
	})
	if p.timed = len(p.idle) > 0; p.timed {
		p.unused.Reset(next)
	}
}

// Finish gives a connection back after a call. It is dropped unless it is reusable,
// for the caller and for net/http.
func (p *Pool) Finish(c *Conn, answer http.Header, reusable bool) {
	if !reusable || c.client.Available() != 1 {
		p.Drop(c)
		return
	}
	c.limitIdle(answer)
	c.idleSince = time.Now()
	p.Put(c)
}

// Drop closes a connection that was taken.
func (p *Pool) Drop(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeLocked(c)
}

func (p *Pool) removeLocked(c *Conn) {
	delete(p.open, c)
	c.close()
}

// Close ends every connection, those in use as well, and every dial ahead.
func (p *Pool) Close() {
	p.cancel()
	defer p.ahead.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.unused.Stop()
	for c := range p.open {
		p.removeLocked(c)
	}
	p.idle = nil
	p.notify()
}

// Counts returns how many connections are open, and how many of them are idle.
func (p *Pool) Counts() (open, idle int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open), len(p.idle)
}
