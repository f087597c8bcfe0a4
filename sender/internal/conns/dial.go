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

// dialer makes connections. The transport dials through it and gives no access to
// the connection below TLS, so the rawConn comes back through the context.
type dialer struct {
	Options

	transport *http.Transport
}

func newDialer(o Options) *dialer {
	d := &dialer{Options: o}
	if d.Wrap == nil {
		d.Wrap = func(c net.Conn) net.Conn { return c }
	}
	d.transport = &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			raw, err := d.dialRaw(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return d.Wrap(raw), nil
		},
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			raw, err := d.dialRaw(ctx, network, address)
			if err != nil {
				return nil, err
			}
			conf := d.TLSConfig()
			conf.DynamicRecordSizingDisabled = true // small first records would split the one write of a call
			return tlsfiles.Handshake(ctx, raw, conf, address)
		},
		Protocols:              new(http.Protocols),
		DisableCompression:     true,
		WriteBufferSize:        32 << 10, // headers and body of a normal job in one write
		MaxResponseHeaderBytes: 64 << 10,
	}
	d.transport.Protocols.SetHTTP1(true)
	return d
}

func (d *dialer) dialRaw(ctx context.Context, network, address string) (*rawConn, error) {
	c, err := d.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	raw := newRawConn(c, d.Scheme == "https")
	*ctx.Value(rawKey{}).(**rawConn) = raw
	return raw, nil
}

func (d *dialer) dial(ctx context.Context) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.DialTimeout)
	defer cancel()
	c := &Conn{mostIdle: d.IdleTimeout}
	client, err := d.transport.NewClientConn(context.WithValue(ctx, rawKey{}, &c.raw), d.Scheme, d.Address)
	if err != nil {
		return nil, err
	}
	c.client = client
	c.idleSince = time.Now()
	if d.MaxAge > 0 { // connections that were opened together do not end together
		c.retireAt = c.idleSince.Add(d.MaxAge - rand.N(d.MaxAge/4+1))
	}
	return c, nil
}
