package sender

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// ErrClosed is the error of a call that [HTTP.Close] came before.
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
	idleAt time.Time     // since when it carries nothing: its last answer, or its dial
	reused bool          // it has lain idle, and is not fresh from a dial
}

// old says that the provider may be about to close the connection.
func (c *conn) old(now time.Time) bool { return now.Sub(c.idleAt) >= c.keep }

// soonOld says that it will be before a permit has come.
func (c *conn) soonOld(now time.Time) bool { return c.old(now.Add(min(usualWait, c.keep/2))) }

// conns keeps the connections: those in use are known, so that Close can end
// them, and those that are idle lie on a stack. The last one used is taken
// first, so that what isn't needed grows old at the bottom.
type conns struct {
	dial func(context.Context) (*conn, error)

	mu     sync.Mutex // never held across a dial or a call
	idle   []*conn
	open   map[*conn]struct{}
	closed bool
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
	for n := len(p.idle); n > 0; n = len(p.idle) {
		c := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		if !c.soonOld(time.Now()) && c.client.Err() == nil {
			c.reused = true
			return c, nil
		}
		p.removeLocked(c)
	}
	return nil, nil
}

// put gives a connection back. Its idle time is the caller's to say: one that
// was taken and not used goes on growing old. The oldest idle one is looked at
// on the way: in steady work that alone keeps the stack free of what nobody
// needs any more.
func (p *conns) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.removeLocked(c)
		return
	}
	if len(p.idle) > 0 && p.idle[0].old(time.Now()) {
		p.removeLocked(p.idle[0])
		p.idle = append(p.idle[:0], p.idle[1:]...)
	}
	p.idle = append(p.idle, c)
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

// close ends every connection, those in use as well.
func (p *conns) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for c := range p.open {
		p.removeLocked(c)
	}
	p.idle = nil
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

type wireKey struct{}

// dialer makes connections. The transport dials through it and gives no way to
// the connection below TLS, so the wire comes back through the context.
type dialer struct {
	transport *http.Transport
	scheme    string
	address   string
	timeout   time.Duration
	keep      time.Duration
}

func newDialer(o HTTPOptions, t *template) *dialer {
	secure := t.url.Scheme == "https"
	tr := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := o.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			w := newWire(c, secure)
			*ctx.Value(wireKey{}).(**wire) = w
			return w, nil
		},
		Protocols:              new(http.Protocols),
		DisableCompression:     true,
		WriteBufferSize:        32 << 10, // headers and body of a normal job in one write
		MaxResponseHeaderBytes: 64 << 10,
	}
	tr.Protocols.SetHTTP1(true)
	if secure {
		tr.TLSClientConfig = new(tls.Config)
		if o.TLS != nil {
			tr.TLSClientConfig = o.TLS.Clone()
		}
		// Small first records would split the one write of a call.
		tr.TLSClientConfig.DynamicRecordSizingDisabled = true
	}
	return &dialer{transport: tr, scheme: t.url.Scheme, address: t.address(), timeout: o.DialTimeout, keep: o.IdleTimeout}
}

func (d *dialer) dial(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	c := &conn{keep: d.keep}
	client, err := d.transport.NewClientConn(context.WithValue(ctx, wireKey{}, &c.wire), d.scheme, d.address)
	if err != nil {
		return nil, err
	}
	c.client = client
	c.idleAt = time.Now()
	return c, nil
}
