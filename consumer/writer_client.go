package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clientOptions are what kgo needs to reach the cluster, from the same
// declaration as the connections of kafka-go; see newClient.
func (c *Connection) clientOptions() ([]kgo.Opt, error) {
	opts := []kgo.Opt{kgo.SeedBrokers(c.Brokers...), kgo.ClientID(c.ClientID), kgo.Dialer(c.dialClient)}
	if c.SASL == nil {
		return opts, nil
	}
	m, err := c.SASL.kgoMechanism()
	if err != nil {
		return nil, err
	}
	return append(opts, kgo.SASL(m)), nil
}

// dialClient opens a connection for kgo.
func (c *Connection) dialClient(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return c.dialSecure(ctx, network, address)
}

// spread is the partitioner: that of Java clients for records with a key, and a
// random partition for others, so that many jobs written at once are many nodes'.
type spread struct{ kgo.TopicPartitioner }

func newSpread() kgo.Partitioner { return spreadAll{kgo.StickyKeyPartitioner(nil)} }

type spreadAll struct{ kgo.Partitioner }

// ForTopic implements [kgo.Partitioner].
func (p spreadAll) ForTopic(topic string) kgo.TopicPartitioner {
	return spread{p.Partitioner.ForTopic(topic)}
}

// Partition implements [kgo.TopicPartitioner].
func (p spread) Partition(r *kgo.Record, n int) int {
	if r.Key == nil {
		return rand.IntN(n)
	}
	return p.TopicPartitioner.Partition(r, n)
}

// brokerError is an error of kgo in the terms of kafka-go, which the package
// uses everywhere else.
func brokerError(err error) error {
	if e, ok := errors.AsType[*kerr.Error](err); ok {
		return kafka.Error(e.Code)
	}
	return err
}

// tooLarge tells whether a broker, or the client before it, refused a batch for
// its size.
func tooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// witness keeps what kgo logs about faults. kgo tries again by itself and without
// an end, so that its log alone knows why a record is not acknowledged. It is
// asked for details only while one is late.
type witness struct {
	log *slog.Logger

	mu        sync.Mutex
	listening bool
	last      string
}

// Level implements [kgo.Logger].
func (s *witness) Level() kgo.LogLevel {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listening {
		return kgo.LogLevelDebug
	}
	return kgo.LogLevelWarn
}

// Log implements [kgo.Logger].
func (s *witness) Log(_ kgo.LogLevel, message string, pairs ...any) {
	for i := 0; i+1 < len(pairs); i += 2 {
		switch value := pairs[i+1]; pairs[i] {
		case "err":
			if err, ok := value.(error); ok && err != nil && !errors.Is(err, context.Canceled) {
				s.note(message, err.Error())
			}
		case "to": // what a broker said to each partition of a produce request
			if text, ok := value.(string); ok && strings.Contains(text, "retrying@") {
				s.note("the broker did not take it", text)
			}
		}
	}
}

func (s *witness) note(what, why string) {
	s.mu.Lock()
	s.last = clip(what+": "+why, maxMessageBytes)
	s.mu.Unlock()
	s.log.Debug("kafka client", "message", what, "error", clip(why, maxMessageBytes))
}

// listen asks kgo for details, or no more.
func (s *witness) listen(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listening = yes; !yes {
		s.last = ""
	}
}

// why says why a record is late, as far as that is known.
func (s *witness) why(o *outgoing) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf("not acknowledged for %v", time.Since(o.sent).Round(100*time.Millisecond))
	if s.last != "" {
		text += ": " + s.last
	}
	return errors.New(text)
}
