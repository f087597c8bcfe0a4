package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"dispatcher/consumer/internal/auth"
	"dispatcher/consumer/internal/batches"
	"dispatcher/internal/fault"
	"dispatcher/internal/tlsfiles"
)

// Connection is how to reach the cluster.
type Connection struct {
	Brokers  []string    `yaml:"brokers"` // host:port; one that answers is enough
	ClientID string      `yaml:"-"`       // shown in the brokers' logs; a node recognises its own earlier membership by it; empty: dispatcher
	SASL     *auth.SASL  `yaml:"-"`       // nil: no authentication
	TLS      *tls.Config `yaml:"-"`

	MaxBatchBytes int `yaml:"max_batch_bytes"` // what a compressed batch may unpack to; default 64 MiB

	// Dial opens a connection; nil: a net.Dialer does. A Dial that encrypts the connection
	// itself needs a TLS of nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error) `yaml:"-"`
}

// DefaultClientID is the client id of a node that sets none.
const DefaultClientID = "dispatcher"

// SetDefaults fills fields that are zero.
func (c *Connection) SetDefaults() {
	c.ClientID = cmp.Or(c.ClientID, DefaultClientID)
	c.MaxBatchBytes = cmp.Or(c.MaxBatchBytes, batches.DefaultMaxBytes)
}

// Validate joins a fault for each field that can't be used.
func (c *Connection) Validate() error {
	var l fault.List
	l.Refuse(len(c.Brokers) == 0, "brokers", c.Brokers, "name at least one")
	for i, b := range c.Brokers {
		l.Address("brokers."+strconv.Itoa(i), b, 1)
	}
	l.Within("max_batch_bytes", c.MaxBatchBytes, batches.LeastMaxBytes, 1<<30)
	if c.SASL != nil {
		l.Under("", c.SASL.Validate())
	}
	return l.Err()
}

// KgoOptions are the options with which kgo reaches the same cluster; see [NewClient].
func (c *Connection) KgoOptions() ([]kgo.Opt, error) {
	opts := []kgo.Opt{kgo.SeedBrokers(c.Brokers...), kgo.ClientID(c.ClientID), kgo.Dialer(c.dialKgo)}
	if c.SASL == nil {
		return opts, nil
	}
	m, err := c.SASL.Kgo()
	if err != nil {
		return nil, err
	}
	return append(opts, kgo.SASL(m)), nil
}

func (c *Connection) dialKgo(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return c.dialBroker(ctx, network, address)
}

// dialBroker opens a connection to a broker, with TLS if the cluster needs it. Its context bounds
// the TLS handshake too.
func (c *Connection) dialBroker(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := c.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, network, addr)
	if err != nil || c.TLS == nil {
		return conn, err
	}
	return tlsfiles.Handshake(ctx, conn, c.TLS.Clone(), addr)
}
