package produce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"dispatcher/internal/clip"

	"github.com/twmb/franz-go/pkg/kgo"
)

// maxLogText bounds the text that is kept of a message of kgo, in bytes.
const maxLogText = 1 << 10

// clientLog keeps the last fault that kgo logged. kgo retries without an end and returns no
// error meanwhile, so only its log says why a record is not acknowledged. clientLog asks kgo
// for debug messages only while a record is late.
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
		case "to": // a broker's answer for each partition of a produce request
			if text, ok := value.(string); ok && strings.Contains(text, "retrying@") {
				s.note("the broker refused the batch", text)
			}
		}
	}
}

func (s *clientLog) note(message, reason string) {
	s.mu.Lock()
	s.last = clip.Text(message+": "+reason, maxLogText)
	s.mu.Unlock()
	s.log.Debug("kafka client", "message", message, "error", clip.Text(reason, maxLogText))
}

// listen starts or ends the debug messages of kgo.
func (s *clientLog) listen(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listening = yes; !yes {
		s.last = ""
	}
}

// reason says why a record is late, as far as kgo's log has it.
func (s *clientLog) reason(since time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf("not acknowledged for %v", time.Since(since).Round(100*time.Millisecond))
	if s.last != "" {
		text += ": " + s.last
	}
	return errors.New(text)
}
