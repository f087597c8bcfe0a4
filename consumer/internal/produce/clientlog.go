package produce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"dispatcher/internal/clip"

	"github.com/twmb/franz-go/pkg/kgo"
)

// randomWithoutKey is the partitioner: that of Java clients for records with a key, and a
// random partition for others, so that many jobs written at once are many nodes'.
type randomWithoutKey struct{ kgo.TopicPartitioner }

func newPartitioner() kgo.Partitioner { return partitioner{kgo.StickyKeyPartitioner(nil)} }

type partitioner struct{ kgo.Partitioner }

// ForTopic implements [kgo.Partitioner].
func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return randomWithoutKey{p.Partitioner.ForTopic(topic)}
}

// Partition implements [kgo.TopicPartitioner].
func (p randomWithoutKey) Partition(r *kgo.Record, n int) int {
	if r.Key == nil {
		return rand.IntN(n)
	}
	return p.TopicPartitioner.Partition(r, n)
}

// maxClientText bounds what the log shows of a message, in bytes.
const maxClientText = 1 << 10

// clientLog keeps what kgo logs about faults. kgo tries again by itself and without
// an end, so that its log alone knows why a record is not acknowledged. It is
// asked for details only while one is late.
type clientLog struct {
	log *slog.Logger

	mu        sync.Mutex
	listening bool
	last      string
}

// Level implements [kgo.Logger].
func (s *clientLog) Level() kgo.LogLevel {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listening {
		return kgo.LogLevelDebug
	}
	return kgo.LogLevelWarn
}

// Log implements [kgo.Logger].
func (s *clientLog) Log(_ kgo.LogLevel, message string, pairs ...any) {
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

func (s *clientLog) note(what, why string) {
	s.mu.Lock()
	s.last = clip.Text(what+": "+why, maxClientText)
	s.mu.Unlock()
	s.log.Debug("kafka client", "message", what, "error", clip.Text(why, maxClientText))
}

// listen asks kgo for details, or no more.
func (s *clientLog) listen(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listening = yes; !yes {
		s.last = ""
	}
}

// why says why a record is late, as far as that is known.
func (s *clientLog) why(o *Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf("not acknowledged for %v", time.Since(o.sent).Round(100*time.Millisecond))
	if s.last != "" {
		text += ": " + s.last
	}
	return errors.New(text)
}
