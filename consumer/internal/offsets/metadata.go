package offsets

import (
	"encoding/base64"
	"encoding/binary"
	"errors"

	"dispatcher/consumer/internal/topicname"
)

// Metadata is what the text beside a committed offset says: which topic it is of,
// which offsets beyond it are complete, and what open jobs have been through.
//
// # Format v3 (frozen)
//
//	"v3;" base64(id length marks pasts)  standard alphabet, no padding, ≤ 4096 characters
//
// id are the 16 bytes of the topic's id, which is never zero. An offset that was
// committed with another id belongs to a topic that was deleted and made again.
// length is an unsigned varint: the bytes of marks, 0 where nothing beyond the
// committed offset is complete. marks are kind and payload, as in v1. pasts are at
// least one run of four unsigned varints each: the offsets between the end of the
// run before, at first the committed offset, and this run; its length, at least 1;
// the failures of each of its jobs, at least 1; and the calls of each. The
// runs come to at most 8192 offsets. Those that would make the text too long are
// left out, from the end.
//
// # Format v2 (frozen)
//
//	"v2;" base64(id)                    nothing beyond the committed offset is complete
//	"v2;" base64(id kind payload)
//
// # Format v1 (frozen)
//
//	"v1;" base64(kind payload)          nothing complete is the empty string
//
// A writer takes v3 where there are pasts, else v2. One that does not know the
// topic's id writes v1: brokers before Kafka 2.8 have none. A reader takes all.
// Metadata that differs in anything is someone else's, and ignored. What kind and
// payload are says [Bitmap].
type Metadata struct {
	Topic    topicname.ID // zero: not known
	Bitmap   Bitmap
	Attempts AttemptList // counted from the committed offset
}

const (
	prefixV1    = "v1;"
	prefixV2    = "v2;"
	prefixV3    = "v3;"
	maxMetadata = 4096 // a broker's offset.metadata.max.bytes by default
	maxRaw      = (maxMetadata - len(prefixV3)) * 6 / 8
)

var errForeignMetadata = errors.New("metadata is in none of the formats v1 to v3")

// Encode renders the text.
func (m *Metadata) Encode() string {
	if m.Topic == (topicname.ID{}) {
		return m.Bitmap.Encode()
	}
	if len(m.Attempts) == 0 {
		return prefixV2 + base64.RawStdEncoding.EncodeToString(m.Bitmap.append(m.Topic[:]))
	}
	marks := m.Bitmap.append(nil)
	raw := binary.AppendUvarint(m.Topic[:], uint64(len(marks)))
	raw = m.Attempts.append(append(raw, marks...), maxRaw)
	return prefixV3 + base64.RawStdEncoding.EncodeToString(raw)
}

// DecodeMetadata reads the text. An empty one says nothing.
func DecodeMetadata(text string) (m Metadata, err error) {
	if text == "" {
		return Metadata{}, nil
	}
	prefix, coded := text[:min(len(text), len(prefixV1))], text[min(len(text), len(prefixV1)):]
	raw, err := base64.RawStdEncoding.Strict().DecodeString(coded)
	if err != nil || len(text) > maxMetadata {
		return Metadata{}, errForeignMetadata
	}
	ok := false
	switch prefix {
	case prefixV1:
		m.Bitmap, ok = decodeBitmap(raw)
	case prefixV2, prefixV3:
		m, ok = decodeWithTopic(raw, prefix == prefixV3)
	}
	if !ok {
		return Metadata{}, errForeignMetadata
	}
	return m, nil
}

// decodeWithTopic reads what begins with a topic's id.
func decodeWithTopic(raw []byte, withPasts bool) (m Metadata, ok bool) {
	n := copy(m.Topic[:], raw)
	if raw = raw[n:]; n < len(m.Topic) || m.Topic == (topicname.ID{}) {
		return Metadata{}, false
	}
	marks := raw
	if withPasts {
		length, n := binary.Uvarint(raw)
		if n <= 0 || length > uint64(len(raw)-n) {
			return Metadata{}, false
		}
		marks, raw = raw[n:n+int(length)], raw[n+int(length):]
		if m.Attempts, ok = decodeAttempts(raw); !ok || len(m.Attempts) == 0 {
			return Metadata{}, false
		}
	}
	if len(marks) > 0 {
		if m.Bitmap, ok = decodeBitmap(marks); !ok {
			return Metadata{}, false
		}
	}
	return m, true
}

// From counts everything from a later offset on.
func (m *Metadata) From(by int64) Metadata {
	return Metadata{Topic: m.Topic, Bitmap: m.Bitmap.from(by), Attempts: m.Attempts.from(by)}
}

// Span is how far it reaches beyond the committed offset.
func (m *Metadata) Span() int64 { return max(int64(m.Bitmap.N), m.Attempts.span()) }
