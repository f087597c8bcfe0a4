package conns

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"dispatcher/internal/tlsfiles"
)

// Options for [New]. MaxAge and Wrap may be zero, and TLSConfig without https.
type Options struct {
	Scheme      string // http or https
	Address     string // host:port
	Dial        tlsfiles.DialFunc
	TLSConfig   func() *tls.Config // makes the settings of one handshake
	DialTimeout time.Duration      // for a connection, TLS included
	IdleTimeout time.Duration      // how long a connection may be idle
	MaxAge      time.Duration      // how long a connection takes new calls, up to a quarter less; 0: without a bound
	// OnDial is called after each dial; the connection is nil with an error.
	OnDial func(context.Context, *Conn, error)
	// Wrap stands between net/http and the check of a call's first write, to hold that
	// write up in a test.
	Wrap func(net.Conn) net.Conn
}

type rawKey struct{}

// newTransport makes the transport that opens connections. It gives no access to a
// connection below TLS, so the rawConn comes back through the context.
func newTransport(o Options) *http.Transport {
	dialRaw := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := o.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		raw := newRawConn(c, o.Scheme == "https")
		*ctx.Value(rawKey{}).(**rawConn) = raw
		return raw, nil
	}
	t := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			raw, err := dialRaw(ctx, network, address)
			if err != nil || o.Wrap == nil {
				return raw, err
			}
			return o.Wrap(raw), nil
		},
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			raw, err := dialRaw(ctx, network, address)
			if err != nil {
				return nil, err
			}
			conf := o.TLSConfig()
			conf.DynamicRecordSizingDisabled = true // small first records would split the one write of a call
			return tlsfiles.Handshake(ctx, raw, conf, address)
		},
		Protocols:              new(http.Protocols),
		DisableCompression:     true,
		WriteBufferSize:        32 << 10, // headers and body of a normal job in one write
		MaxResponseHeaderBytes: 64 << 10,
	}
	t.Protocols.SetHTTP1(true)
	return t
}

func (p *Pool) dial(ctx context.Context) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.DialTimeout)
	defer cancel()
	c := &Conn{mostIdle: p.opts.IdleTimeout}
	client, err := p.transport.NewClientConn(context.WithValue(ctx, rawKey{}, &c.raw), p.opts.Scheme, p.opts.Address)
	if err != nil {
		return nil, err
	}
	c.client = client
	c.idleSince = time.Now()
	if d := p.opts.MaxAge; d > 0 { // connections that were opened together do not end together
		c.retireAt = c.idleSince.Add(d - rand.N(d/4+1))
	}
	return c, nil
}
