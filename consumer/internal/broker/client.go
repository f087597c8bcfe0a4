package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"

	"dispatcher/consumer/internal/batches"
)

const (
	dialTimeout = 3 * time.Second
	// CallTimeout bounds one request to a broker that isn't a long poll.
	CallTimeout = 3 * time.Second
	// metadataTTL is how old the known leader of a partition may get, for LogRanges and FetchPartition. A node's
	// fetcher has the leaders from Describe.
	metadataTTL = 3 * time.Second
)

// Client holds the ways to reach a cluster. Group membership uses kafka-go's Dialer. Commits
// and kafka-go's other requests use its transport, which keeps one connection for each request
// in flight, so a slow commit never delays a heartbeat. [Client.Request], which fetches, has
// connections of its own that the Dialer opens. None has TLS of its own: all connections come
// from Connection.dialBroker, which adds TLS.
type Client struct {
	kafka.Client
	*batches.Unpacker

	Dialer *kafka.Dialer

	conn      *Connection
	transport *kafka.Transport
	idle      connPool
	buffers   sync.Pool // of *[]byte, for answers that rawConn reads
}

// NewClient prepares connections. The client may ask for the layout of the topics named.
func NewClient(c *Connection, topics []string) (*Client, error) {
	var mechanism sasl.Mechanism
	if c.SASL != nil {
		m, err := c.SASL.KafkaGo()
		if err != nil {
			return nil, err
		}
		mechanism = m
	}
	tr := &kafka.Transport{
		Dial: c.dialBroker, DialTimeout: dialTimeout, MetadataTTL: metadataTTL,
		MetadataTopics: topics, ClientID: c.ClientID, SASL: mechanism,
	}
	cl := &Client{
		Client:    kafka.Client{Addr: kafka.TCP(c.Brokers...), Timeout: CallTimeout, Transport: tr},
		Unpacker:  batches.NewUnpacker(c.MaxBatchBytes),
		conn:      c,
		transport: tr,
	}
	cl.Dialer = &kafka.Dialer{ClientID: c.ClientID, DialFunc: cl.dialNoCreate, Timeout: dialTimeout, SASLMechanism: mechanism}
	return cl, nil
}

// Close closes idle connections.
func (c *Client) Close() {
	c.transport.CloseIdleConnections()
	c.idle.close()
}

// Ping connects to one broker and logs in. kafka-go's transport reports a wrong password as
// an unexpected end of file; the error of Ping says what was wrong.
func (c *Client) Ping(ctx context.Context) error {
	var faults []error
	for _, b := range c.conn.Brokers {
		w, err := c.openConn(ctx, b)
		if err == nil {
			return w.conn.Close()
		}
		faults = append(faults, fmt.Errorf("connect to %s: %w", b, err))
	}
	return errors.Join(faults...)
}
