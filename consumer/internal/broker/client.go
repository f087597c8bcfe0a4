package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	dialTimeout = 3 * time.Second
	// CallTimeout bounds one request to a broker that isn't a long poll.
	CallTimeout = 3 * time.Second
	// metadataTTL is how old the knowledge of a partition's leader may get. A
	// fetch that finds the wrong broker waits for the next look at it.
	metadataTTL = 3 * time.Second
)

// Client holds the two ways of kafka-go to talk to a cluster. Group membership
// goes through the dialer, everything else through the transport, which keeps a
// connection of its own for each request under way: a slow commit never delays
// a heartbeat.
type Client struct {
	kafka.Client
	transport  *kafka.Transport
	Dialer     *kafka.Dialer // without TLS, which its connections bring along; see dialBelow
	brokers    []string
	dialBelow  func(ctx context.Context, network, address string) (net.Conn, error) // with TLS
	idle       connPool
	answers    sync.Pool // of *[]byte, for what wires read
	Decompress kgo.Decompressor
}

// NewClient prepares connections; topics are those whose layout it may ask for.
func NewClient(c *Connection, topics []string) (*Client, error) {
	var mechanism sasl.Mechanism
	if c.SASL != nil {
		m, err := c.SASL.KafkaGo()
		if err != nil {
			return nil, err
		}
		mechanism = m
	}
	var conf *tls.Config
	if c.TLS != nil {
		conf = c.TLS.Clone()
	}
	tr := &kafka.Transport{
		Dial: c.Dial, DialTimeout: dialTimeout, MetadataTTL: metadataTTL,
		MetadataTopics: topics, ClientID: c.ClientID, TLS: conf, SASL: mechanism,
	}
	cl := &Client{
		Client:     kafka.Client{Addr: kafka.TCP(c.Brokers...), Timeout: CallTimeout, Transport: tr},
		transport:  tr,
		brokers:    c.Brokers,
		dialBelow:  c.dialSecure,
		Decompress: kgo.DefaultDecompressor(),
	}
	cl.Dialer = &kafka.Dialer{ClientID: c.ClientID, DialFunc: cl.dialReadOnly, Timeout: dialTimeout, SASLMechanism: mechanism}
	return cl, nil
}

// Close ends idle connections.
func (c *Client) Close() {
	c.transport.CloseIdleConnections()
	c.idle.close()
}

// dialSecure opens a connection to a broker, with TLS where that is asked for. Its
// context bounds the handshake too.
func (c *Connection) dialSecure(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := c.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, network, addr)
	if err != nil || c.TLS == nil {
		return conn, err
	}
	conf := c.TLS.Clone()
	if conf.ServerName == "" {
		if conf.ServerName, _, err = net.SplitHostPort(addr); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	secure := tls.Client(conn, conf)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
}

// Ping opens one connection, for the sake of its error: the transport reports
// a wrong password as an unexpected end of file.
func (c *Client) Ping(ctx context.Context) error {
	var faults []error
	for _, b := range c.brokers {
		conn, err := c.Dialer.DialContext(ctx, "tcp", b)
		if err == nil {
			return conn.Close()
		}
		faults = append(faults, fmt.Errorf("connect to %s: %w", b, err))
	}
	return errors.Join(faults...)
}
