package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"dispatcher/consumer/internal/auth"
	"dispatcher/internal/fault"
)

// Connection is how to reach the cluster.
type Connection struct {
	Brokers  []string    `yaml:"brokers"` // host:port; one that answers is enough
	ClientID string      `yaml:"-"`       // shown in the brokers' logs; a node recognises its own earlier membership by it; empty: dispatcher
	SASL     *auth.SASL  `yaml:"-"`       // nil: no authentication
	TLS      *tls.Config `yaml:"-"`

	// Dial opens a connection; nil: the network's own. One that encrypts by itself,
	// and may do so anew each time, goes with a TLS of nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error) `yaml:"-"`
}

// DefaultClientID is the client id of a node that gives none.
const DefaultClientID = "dispatcher"

// SetDefaults fills fields that are zero.
func (c *Connection) SetDefaults() { c.ClientID = cmp.Or(c.ClientID, DefaultClientID) }

// Validate joins a fault for each field that can't be used.
func (c *Connection) Validate() error {
	var l fault.List
	l.Refuse(len(c.Brokers) == 0, "brokers", c.Brokers, "name at least one")
	for i, b := range c.Brokers {
		l.Address("brokers."+strconv.Itoa(i), b, 1)
	}
	if c.SASL != nil {
		l.Under("", c.SASL.Validate())
	}
	return l.Err()
}

// KgoOptions are what kgo needs to reach the cluster, from the same
// declaration as the connections of kafka-go; see newClient.
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

// dialKgo opens a connection for kgo.
func (c *Connection) dialKgo(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return c.dialSecure(ctx, network, address)
}
