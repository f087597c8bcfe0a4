package consumer

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicID names a topic for as long as it lives: one that is deleted and made
// again has another. Zero: not known.
type topicID [16]byte

// errNoTopicIDs: a broker from before Kafka 2.8.
var errNoTopicIDs = errors.New("the broker knows no ids of topics")

const (
	apiMetadata     = int16(kmsg.Metadata)
	metadataVersion = 10 // the first one with ids; kafka-go ends at 8, so kmsg says it
	maxMetadataSize = 8 << 20
)

// idWire asks one broker for ids of topics. It belongs to one goroutine, and
// connects when it is asked and has no connection.
type idWire struct {
	client *client
	conn   net.Conn
	from   int // which broker to begin with: the one before did not answer
	asked  int32
}

// ask returns the id of a topic. Its error may be kafka.UnknownTopicOrPartition,
// or errNoTopicIDs; after any other one the next call connects again.
func (w *idWire) ask(ctx context.Context, topic string) (topicID, error) {
	if w.conn == nil {
		if err := w.connect(ctx); err != nil {
			return topicID{}, err
		}
	}
	conn := w.conn
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	answer, err := w.exchange(topic)
	if err != nil || !stop() {
		w.close()
	}
	if err != nil {
		return topicID{}, fmt.Errorf("ask for the id of topic %s: %w", topic, err)
	}
	return decodeTopicID(answer)
}

func (w *idWire) close() {
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}

// connect has kafka-go prove who we are, and keeps the connection below it.
func (w *idWire) connect(ctx context.Context) error {
	var faults []error
	for range w.client.brokers {
		err := w.connectTo(ctx, w.client.brokers[w.from])
		if err == nil || errors.Is(err, errNoTopicIDs) {
			return err
		}
		w.from = (w.from + 1) % len(w.client.brokers)
		if faults = append(faults, err); ctx.Err() != nil {
			break
		}
	}
	return errors.Join(faults...)
}

func (w *idWire) connectTo(ctx context.Context, broker string) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var below net.Conn
	d := *w.client.dialer
	d.TLS = nil
	d.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := w.client.dialBelow(ctx, network, addr)
		below = c
		return c, err
	}
	conn, err := d.DialContext(ctx, "tcp", broker)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	versions, err := conn.ApiVersions()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil && !speaksIDs(versions) {
		err = errNoTopicIDs
	}
	if err != nil {
		_ = conn.Close()
		return err
	}
	w.conn = below
	return nil
}

// dialBelow opens a connection to a broker, with TLS where that is asked for.
func (c *client) dialBelow(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := c.dialer.DialFunc
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, network, addr)
	if err != nil || c.dialer.TLS == nil {
		return conn, err
	}
	conf := c.dialer.TLS.Clone()
	if conf.ServerName == "" {
		if conf.ServerName, _, err = net.SplitHostPort(addr); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	secure := tls.Client(conn, conf)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

func speaksIDs(versions []kafka.ApiVersion) bool {
	for _, v := range versions {
		if v.ApiKey == apiMetadata {
			return v.MinVersion <= metadataVersion && v.MaxVersion >= metadataVersion
		}
	}
	return false
}

// exchange sends a request and returns the body of its answer.
func (w *idWire) exchange(topic string) ([]byte, error) {
	w.asked++
	if _, err := w.conn.Write(encodeAskID(w.client.dialer.ClientID, topic, w.asked)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(w.conn, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size > maxMetadataSize {
		return nil, fmt.Errorf("an answer of %d bytes", size)
	}
	answer := make([]byte, size)
	if _, err := io.ReadFull(w.conn, answer); err != nil {
		return nil, err
	}
	if got := int32(binary.BigEndian.Uint32(answer)); got != w.asked {
		return nil, fmt.Errorf("an answer to request %d, want %d", got, w.asked)
	}
	return answer[4:], nil
}

// encodeAskID is a request for one topic's metadata, which does not create it.
func encodeAskID(clientID, topic string, number int32) []byte {
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(metadataVersion)
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, req, number)
}

// decodeTopicID reads the answer behind its number.
func decodeTopicID(answer []byte) (topicID, error) {
	res := kmsg.NewPtrMetadataResponse()
	res.SetVersion(metadataVersion)
	if len(answer) == 0 || answer[0] != 0 { // the head's tags; there are none yet
		return topicID{}, errors.New("the answer has a head that is not known")
	}
	if err := res.ReadFrom(answer[1:]); err != nil {
		return topicID{}, fmt.Errorf("read the answer: %w", err)
	}
	if len(res.Topics) != 1 {
		return topicID{}, fmt.Errorf("the answer tells of %d topics", len(res.Topics))
	}
	if code := res.Topics[0].ErrorCode; code != 0 {
		return topicID{}, kafka.Error(code)
	}
	return res.Topics[0].TopicID, nil
}
