package deadletter

import (
	"strconv"

	"dispatcher/consumer/internal/produce"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Truncate makes a letter smaller. First the value, to what a broker takes by
// default, then by halves, down to nothing; then the headers that are not about
// the dead letter; then the key. What is left is a few kilobytes. The headers
// say where the whole one lies. It returns false when nothing is left to cut.
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

// bytesToKeep is how many bytes of the value to keep.
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

// dropHeaders drops the headers that a letter can do without: foreign ones, and what
// a producer has put under one of our names though it is none of ours. It
// returns whether there were any.
func dropHeaders(m *kgo.Record) bool {
	var kept []kgo.RecordHeader
	for _, h := range m.Headers {
		if isOwnHeader(h.Key) && len(h.Value) <= MaxMessageBytes && !hasHeader(kept, h.Key) {
			kept = append(kept, h)
		}
	}
	stripped := len(kept) < len(m.Headers)
	m.Headers = kept
	return stripped
}
