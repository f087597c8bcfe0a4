package offsets

import (
	"encoding/base64"
	"encoding/binary"
	"errors"

	"dispatcher/consumer/internal/topicname"
)

// Metadata is the content of the text beside a committed offset: the id of its topic, the
// offsets that are complete beyond it, and the attempts of open jobs.
//
// # Format v3 (frozen)
//
//	"v3;" base64(id length bitmap attempts)  standard alphabet, no padding, ≤ 4096 characters
//
// id is the topic's id: 16 bytes, never all zero. An offset that was committed with another id
// belongs to a topic that was deleted and created again. length is an unsigned varint: the
// bytes of bitmap, 0 if no offset beyond the committed one is complete. bitmap is kind and
// payload, as in v1.
//
// attempts is at least one run of four unsigned varints: the offsets between the end of the
// previous run (at first the committed offset) and this run; the length of the run, at least
// 1; the failures of each of its jobs, at least 1; and the calls of each. The runs cover at
// most 8192 offsets. Runs that would make the text too long are left out, from the end.
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
// A writer takes v3 if there are attempts, else v2. Without a topic id it takes v1: brokers
// before Kafka 2.8 have no ids. A reader takes all three. It ignores text in any other form.
// [Bitmap] describes kind and payload.
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

// Encode returns the text.
func (m *Metadata) Encode() string {
	if m.Topic == (topicname.ID{}) {
		return m.Bitmap.Encode()
	}
	if len(m.Attempts) == 0 {
		return prefixV2 + base64.RawStdEncoding.EncodeToString(m.Bitmap.append(m.Topic[:]))
	}
	bitmap := m.Bitmap.append(nil)
	raw := binary.AppendUvarint(m.Topic[:], uint64(len(bitmap)))
	raw = m.Attempts.append(append(raw, bitmap...), maxRaw)
	return prefixV3 + base64.RawStdEncoding.EncodeToString(raw)
}

// DecodeMetadata decodes the text. An empty text is valid and holds nothing.
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

// decodeWithTopic decodes v2, or v3 with attempts.
func decodeWithTopic(raw []byte, withAttempts bool) (m Metadata, ok bool) {
	n := copy(m.Topic[:], raw)
	if raw = raw[n:]; n < len(m.Topic) || m.Topic == (topicname.ID{}) {
		return Metadata{}, false
	}
	bitmap := raw
	if withAttempts {
		length, n := binary.Uvarint(raw)
		if n <= 0 || length > uint64(len(raw)-n) {
			return Metadata{}, false
		}
		bitmap, raw = raw[n:n+int(length)], raw[n+int(length):]
		if m.Attempts, ok = decodeAttempts(raw); !ok || len(m.Attempts) == 0 {
			return Metadata{}, false
		}
	}
	if len(bitmap) > 0 {
		if m.Bitmap, ok = decodeBitmap(bitmap); !ok {
			return Metadata{}, false
		}
	}
	return m, true
}

// From returns the metadata from a later offset on, with offsets counted from there.
func (m *Metadata) From(by int64) Metadata {
	return Metadata{Topic: m.Topic, Bitmap: m.Bitmap.from(by), Attempts: m.Attempts.from(by)}
}

// Span is how many offsets it covers, from the committed one on.
func (m *Metadata) Span() int64 { return max(int64(m.Bitmap.N), m.Attempts.span()) }
