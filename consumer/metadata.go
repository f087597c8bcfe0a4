package consumer

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
)

// metadata is what the text beside a committed offset says: which topic it is of,
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
// payload are says [marks].
type metadata struct {
	topic topicID // zero: not known
	marks marks
	pasts pasts // counted from the committed offset
}

const (
	marksPrefix = "v1;"
	idPrefix    = "v2;"
	pastsPrefix = "v3;"
	maxMetadata = 4096 // a broker's offset.metadata.max.bytes by default
	maxRaw      = (maxMetadata - len(pastsPrefix)) * 6 / 8
)

var errForeignMetadata = errors.New("metadata is in none of the formats v1 to v3")

// encode renders the text.
func (m *metadata) encode() string {
	if m.topic == (topicID{}) {
		return m.marks.encode()
	}
	if len(m.pasts) == 0 {
		return idPrefix + base64.RawStdEncoding.EncodeToString(m.marks.append(m.topic[:]))
	}
	marks := m.marks.append(nil)
	raw := binary.AppendUvarint(m.topic[:], uint64(len(marks)))
	raw = m.pasts.append(append(raw, marks...), maxRaw)
	return pastsPrefix + base64.RawStdEncoding.EncodeToString(raw)
}

// decodeMetadata reads the text. An empty one says nothing.
func decodeMetadata(text string) (m metadata, err error) {
	if text == "" {
		return metadata{}, nil
	}
	prefix, coded := text[:min(len(text), len(marksPrefix))], text[min(len(text), len(marksPrefix)):]
	raw, err := base64.RawStdEncoding.Strict().DecodeString(coded)
	if err != nil || len(text) > maxMetadata {
		return metadata{}, errForeignMetadata
	}
	ok := false
	switch prefix {
	case marksPrefix:
		m.marks, ok = decodeMarks(raw)
	case idPrefix, pastsPrefix:
		m, ok = decodeNamed(raw, prefix == pastsPrefix)
	}
	if !ok {
		return metadata{}, errForeignMetadata
	}
	return m, nil
}

// decodeNamed reads what begins with a topic's id.
func decodeNamed(raw []byte, withPasts bool) (m metadata, ok bool) {
	n := copy(m.topic[:], raw)
	if raw = raw[n:]; n < len(m.topic) || m.topic == (topicID{}) {
		return metadata{}, false
	}
	marks := raw
	if withPasts {
		length, n := binary.Uvarint(raw)
		if n <= 0 || length > uint64(len(raw)-n) {
			return metadata{}, false
		}
		marks, raw = raw[n:n+int(length)], raw[n+int(length):]
		if m.pasts, ok = decodePasts(raw); !ok || len(m.pasts) == 0 {
			return metadata{}, false
		}
	}
	if len(marks) > 0 {
		if m.marks, ok = decodeMarks(marks); !ok {
			return metadata{}, false
		}
	}
	return m, true
}

// from counts everything from a later offset on.
func (m *metadata) from(by int64) metadata {
	return metadata{topic: m.topic, marks: m.marks.from(by), pasts: m.pasts.shifted(by)}
}

// span is how far it reaches beyond the committed offset.
func (m *metadata) span() int64 { return max(int64(m.marks.n), m.pasts.span()) }
