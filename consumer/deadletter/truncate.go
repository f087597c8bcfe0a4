package deadletter

import (
	"strconv"

	"dispatcher/consumer/internal/produce"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Truncate makes a letter that the broker refused smaller. Each call takes one step: first it
// truncates the value to the size that brokers accept by default, then by half each time. Then
// it drops headers that the letter can do without, then the key. A few kilobytes remain, and
// the headers name the original record. It returns false when nothing is left to drop.
func Truncate(m *kgo.Record) bool {
	size := len(m.Value)
	switch {
	case size > 0:
		m.Value = m.Value[:bytesToKeep(m)]
	case dropHeaders(m):
	case len(m.Key) > 0:
		m.Key = nil
	default:
		return false
	}
	if !hasHeader(m.Headers, headerTruncated) {
		m.Headers = append(m.Headers,
			kgo.RecordHeader{Key: headerTruncated, Value: []byte("true")},
			kgo.RecordHeader{Key: headerOriginalSize, Value: strconv.AppendInt(nil, int64(size), 10)})
	}
	return true
}

// bytesToKeep is how many bytes of the value the next step keeps.
func bytesToKeep(m *kgo.Record) int {
	size, fit := len(m.Value), produce.DefaultBatchBytes-len(m.Key)
	for _, h := range m.Headers {
		fit -= len(h.Key) + len(h.Value) + 16
	}
	if fit <= 0 || fit >= size {
		return size / 2
	}
	return fit
}

// dropHeaders drops foreign headers, and headers with a name of ours that dispatcher can't
// have written: those that are too long or occur twice. It returns whether there were any.
func dropHeaders(m *kgo.Record) bool {
	var kept []kgo.RecordHeader
	for _, h := range m.Headers {
		if isOwnHeader(h.Key) && len(h.Value) <= MaxMessageBytes && !hasHeader(kept, h.Key) {
			kept = append(kept, h)
		}
	}
	dropped := len(kept) < len(m.Headers)
	m.Headers = kept
	return dropped
}
