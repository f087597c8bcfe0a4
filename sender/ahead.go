package sender

import (
	"context"
	"time"
)

// Conn is a connection that is set aside for one call, or stands for one that
// could not be opened. The zero value is none: the call takes one for itself.
type Conn struct {
	pool *conns
	c    *conn
	err  error
	at   time.Time // of err
}

// Unreached stands for a connection that could not be opened just now: its call is
// not made, and its result is [Unavailable] with this error. A call that is begun
// much later says nothing new with it, and opens a connection itself.
func Unreached(err error) Conn { return Conn{err: err, at: time.Now()} }

// IsZero reports whether there is no connection, and no error in its place.
func (c *Conn) IsZero() bool { return c.c == nil && c.err == nil }

// Release gives the connection back, unless a call has taken it. It may be called
// again.
func (c *Conn) Release() {
	if c.c != nil {
		c.pool.put(c.c)
	}
	*c = Conn{}
}

// Ready reports whether a connection is at hand. It has those dialled that the
// demand needs, and doesn't wait for them.
func (h *Sender) Ready(d Demand) bool {
	ready, _ := h.conns.look(d, 0, 0)
	return ready
}

// Await waits until a connection is at hand, and has those dialled meanwhile that
// the demand needs. It returns the context's cause where that ends first, and else
// why a connection could not be opened: each dial that fails while nothing is at
// hand is told once. A caller makes a call of that, with [Unreached].
func (h *Sender) Await(ctx context.Context, d Demand) error { return h.conns.await(ctx, d) }

// Take sets a connection aside; the zero value where none is at hand.
func (h *Sender) Take() Conn {
	c, err := h.conns.pop()
	if c == nil || err != nil {
		return Conn{}
	}
	return Conn{pool: h.conns, c: c}
}

// look begins the dials that are missing, for a caller that has waited on from one
// time to another. It reports whether a connection is at hand or, where none is, an
// error.
func (p *conns) look(d Demand, from, to time.Duration) (ready bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false, ErrClosed
	}
	now := time.Now()
	ready = p.trimLocked(now)
	p.stock.waited(from, to, d)
	if !ready {
		if err = p.stock.failure(now); err != nil {
			return false, err
		}
	}
	for range p.stock.missing(d, len(p.idle)) {
		p.stock.dialing++
		p.ahead.Go(p.dialAhead)
	}
	return ready, nil
}

func (p *conns) await(ctx context.Context, d Demand) error {
	begin := time.Now()
	ready, err := p.look(d, 0, 0)
	if ready || err != nil {
		return err
	}
	timer := time.NewTimer(d.tick())
	defer timer.Stop()
	p.waits(1)
	defer p.waits(-1)
	for from := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.moved:
		case <-timer.C:
			timer.Reset(d.tick())
		}
		to := time.Since(begin)
		if ready, err = p.look(d, from, to); ready || err != nil {
			return err
		}
		from = to
	}
}

func (p *conns) waits(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting += n
	if n > 0 {
		p.tellLocked() // what came before is not to be missed
	}
}

func (p *conns) tellLocked() {
	if p.waiting == 0 {
		return
	}
	select {
	case p.moved <- struct{}{}:
	default:
	}
}

// dialAhead opens one connection for whoever comes.
func (p *conns) dialAhead() {
	c, err := p.fresh(p.ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stock.dialed(err, time.Now())
	switch {
	case err != nil:
	case p.closed:
		p.removeLocked(c)
	default:
		p.idle = append(p.idle, c)
	}
	p.tellLocked()
}
