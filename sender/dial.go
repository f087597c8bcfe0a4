package sender

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"dispatcher/internal/tlsfiles"
)

type wireKey struct{}

// dialer makes connections. The transport dials through it and gives no way to
// the connection below TLS, so the wire comes back through the context.
type dialer struct {
	transport *http.Transport
	scheme    string
	address   string
	timeout   time.Duration
	keep      time.Duration
	age       time.Duration // 0: without a bound
}

func newDialer(o Options, t *template) *dialer {
	tr := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := o.Dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			w := newWire(c, false)
			*ctx.Value(wireKey{}).(**wire) = w
			return w, nil
		},
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := o.Dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			w := newWire(c, true)
			*ctx.Value(wireKey{}).(**wire) = w
			conf := o.TLSConfig()
			// Small first records would split the one write of a call.
			conf.DynamicRecordSizingDisabled = true
			return tlsfiles.Handshake(ctx, w, conf, address)
		},
		Protocols:              new(http.Protocols),
		DisableCompression:     true,
		WriteBufferSize:        32 << 10, // headers and body of a normal job in one write
		MaxResponseHeaderBytes: 64 << 10,
	}
	tr.Protocols.SetHTTP1(true)
	return &dialer{
		transport: tr, scheme: t.url.Scheme, address: t.address(),
		timeout: o.DialTimeout, keep: o.IdleTimeout, age: max(0, o.MaxConnAge),
	}
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
	if d.age > 0 {
		// Connections that were opened together are not to end together.
		c.until = c.idleAt.Add(d.age - rand.N(d.age/4+1))
	}
	return c, nil
}
