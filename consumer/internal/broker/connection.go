package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"

	"dispatcher/consumer/internal/auth"

	"github.com/twmb/franz-go/pkg/kgo"

	"dispatcher/internal/fault"
)

// Connection is how to reach the cluster.
type Connection struct {
	Brokers  []string   // host:port; one that answers is enough
	ClientID string     // what brokers show in their logs, and by which a node knows itself again; empty: dispatcher
	SASL     *auth.SASL // nil: no authentication
	TLS      *tls.Config

	// Dial opens a connection; nil: the network's own. One that encrypts by itself,
	// and may do so anew each time, goes with a TLS of nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// DefaultClientID is the client id of a node that gives none.
const DefaultClientID = "dispatcher"

// SetDefaults fills fields that are zero.
func (c *Connection) SetDefaults() { c.ClientID = cmp.Or(c.ClientID, DefaultClientID) }

// Validate joins a fault for each field that can't be used.
func (c *Connection) Validate() error {
	var faults []error
	if len(c.Brokers) == 0 {
		faults = append(faults, fault.New("brokers", fault.Phrase("[]"), "at least one is needed"))
	}
	for _, b := range c.Brokers {
		_, port, err := net.SplitHostPort(b)
		if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 1 || n > 65535 {
			faults = append(faults, fault.New("brokers", b, "is not host:port"))
		}
	}
	if c.SASL != nil {
		faults = append(faults, c.SASL.Validate())
	}
	return errors.Join(faults...)
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
