package consumer

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
	// callTimeout bounds one request to a broker that isn't a long poll.
	callTimeout = 3 * time.Second
	// metadataTTL is how old the knowledge of a partition's leader may get. A
	// fetch that finds the wrong broker waits for the next look at it.
	metadataTTL = 3 * time.Second
)

// client holds the two ways of kafka-go to talk to a cluster. Group membership
// goes through the dialer, everything else through the transport, which keeps a
// connection of its own for each request under way: a slow commit never delays
// a heartbeat.
type client struct {
	kafka.Client
	transport *kafka.Transport
	dialer    *kafka.Dialer // without TLS, which its connections bring along; see dialBelow
	brokers   []string
	dialBelow func(ctx context.Context, network, address string) (net.Conn, error) // with TLS
	wires     wires
	answers   sync.Pool // of *[]byte, for what wires read
	unpack    kgo.Decompressor
}

// newClient prepares connections; topics are those whose layout it may ask for.
func newClient(c *Connection, topics []string) (*client, error) {
	var mechanism sasl.Mechanism
	if c.SASL != nil {
		m, err := c.SASL.mechanism()
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
	cl := &client{
		Client:    kafka.Client{Addr: kafka.TCP(c.Brokers...), Timeout: callTimeout, Transport: tr},
		transport: tr,
		brokers:   c.Brokers,
		dialBelow: c.dialSecure,
		unpack:    kgo.DefaultDecompressor(),
	}
	cl.dialer = &kafka.Dialer{ClientID: c.ClientID, DialFunc: cl.dialReadOnly, Timeout: dialTimeout, SASLMechanism: mechanism}
	return cl, nil
}

func (c *client) close() {
	c.transport.CloseIdleConnections()
	c.wires.close()
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

// greet opens one connection, for the sake of its error: the transport reports
// a wrong password as an unexpected end of file.
func (c *client) greet(ctx context.Context) error {
	var faults []error
	for _, b := range c.brokers {
		conn, err := c.dialer.DialContext(ctx, "tcp", b)
		if err == nil {
			return conn.Close()
		}
		faults = append(faults, fmt.Errorf("connect to %s: %w", b, err))
	}
	return errors.Join(faults...)
}

// hopeless tells whether trying again can't help: the broker answered, and
// what it says is that the configuration is wrong.
func hopeless(err error) bool {
	if _, bad := errors.AsType[*tls.CertificateVerificationError](err); bad || errors.Is(err, errUnfit) {
		return true
	}
	for _, e := range []kafka.Error{
		kafka.SASLAuthenticationFailed, kafka.UnsupportedSASLMechanism, kafka.IllegalSASLState,
		kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.ClusterAuthorizationFailed,
		kafka.InvalidGroupId, kafka.InvalidSessionTimeout, kafka.InconsistentGroupProtocol,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// pause waits, or returns false because the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// backoff is the wait before try n, from 0 on: doubling from least to most.
func backoff(n int, least, most time.Duration) time.Duration {
	return min(least<<min(n, 16), most)
}

func deadTopic(topic string) string { return topic + ".dlq" }

// parkedTopic is where the dead letters of [ClassUnknown] go that are parked.
func parkedTopic(topic string) string { return topic + ".parked" }
