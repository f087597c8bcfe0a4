package consumer

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math/bits"
	"strings"
)

// marks are the offsets, counted from a commit point, that are complete though
// an earlier one is not. They travel in the metadata of the offset commit.
//
// # Format v2 (frozen)
//
//	"v2;" base64(id)                    nothing beyond the committed offset is complete
//	"v2;" base64(id kind payload)       standard alphabet, no padding, ≤ 4096 characters
//
// id are the 16 bytes of the topic's id, which is never zero. An offset that was
// committed with another id belongs to a topic that was deleted and made again.
// kind and payload are those of v1.
//
// # Format v1 (frozen)
//
//	"v1;" base64(kind payload)          likewise; nothing complete is the empty string
//
// A writer that does not know the topic's id writes v1: brokers before Kafka 2.8
// have none. A reader takes both.
//
// kind 0 is a list of unsigned varints: the lengths of runs, by turns not
// complete and complete, the first one beginning at the committed offset. Each
// is at least 1, and the last run is a complete one.
//
// kind 1 is a bit set: bit i%8 (from the least significant) of byte i/8 is set
// when committed offset + i is complete. The last byte is not 0.
//
// A writer takes the shorter kind. The runs come to at most 8192 offsets, so the
// bit set has at most 1024 bytes and v2 at most 3 + ⌈(16+1+1024)·8/6⌉ = 1391
// characters. The committed offset itself is never complete. Metadata that
// differs in anything is someone else's, and ignored.
type marks struct {
	n    int // offsets from the commit point to the last complete one
	bits [spanCap / 64]uint64
}

const (
	marksPrefix  = "v1;"
	idPrefix     = "v2;"
	kindRuns     = 0
	kindBits     = 1
	maxMetadata  = 4096 // a broker's offset.metadata.max.bytes by default
	maxMarkBytes = 1 + spanCap/8
)

var errForeignMarks = errors.New("metadata is neither in format v1 nor in v2")

func (m *marks) set(i int64) {
	m.bits[i/64] |= 1 << (i % 64)
	m.n = max(m.n, int(i)+1)
}

func (m *marks) done(i int64) bool { return m.bits[i/64]&(1<<(i%64)) != 0 }

// from counts the marks from a later offset on.
func (m *marks) from(by int64) marks {
	if by == 0 {
		return *m
	}
	var later marks
	for i := by; i < int64(m.n); i++ {
		if m.done(i) {
			later.set(i - by)
		}
	}
	return later
}

// runEnd returns where the run that begins at i ends.
func (m *marks) runEnd(i int) int {
	first := m.done(int64(i))
	for i < m.n {
		word := m.bits[i/64]
		if first {
			word = ^word
		}
		if word >>= i % 64; word != 0 {
			return min(i+bits.TrailingZeros64(word), m.n)
		}
		i = (i/64 + 1) * 64
	}
	return m.n
}

// encode renders the metadata of a commit of which the topic's id is not known.
func (m *marks) encode() string {
	if m.n == 0 {
		return ""
	}
	return marksPrefix + base64.RawStdEncoding.EncodeToString(m.append(nil))
}

// encodeOf renders the metadata of a commit in a topic.
func (m *marks) encodeOf(topic topicID) string {
	if topic == (topicID{}) {
		return m.encode()
	}
	return idPrefix + base64.RawStdEncoding.EncodeToString(m.append(topic[:]))
}

// append adds kind and payload; nothing if nothing is complete.
func (m *marks) append(to []byte) []byte {
	if m.n == 0 {
		return to
	}
	from, limit := len(to), 1+(m.n+7)/8
	buf := append(make([]byte, 0, from+limit+binary.MaxVarintLen16), to...)
	buf = append(buf, kindRuns)
	for i := 0; i < m.n && len(buf) <= from+limit; {
		end := m.runEnd(i)
		buf = binary.AppendUvarint(buf, uint64(end-i))
		i = end
	}
	if len(buf) > from+limit {
		buf = m.appendBits(append(buf[:from], kindBits))
	}
	return buf
}

func (m *marks) appendBits(buf []byte) []byte {
	for i := range (m.n + 7) / 8 {
		buf = append(buf, byte(m.bits[i/8]>>(i%8*8)))
	}
	return buf
}

// decodeMarks reads the metadata of a commit. An empty one means no marks.
func decodeMarks(metadata string) (marks, error) {
	_, m, err := decodeMetadata(metadata)
	return m, err
}

// decodeMetadata reads the metadata of a commit, of either format: the id of the
// topic that it was written for, zero where it does not say, and the marks.
func decodeMetadata(metadata string) (topicID, marks, error) {
	if metadata == "" {
		return topicID{}, marks{}, nil
	}
	var id topicID
	text, plain := strings.CutPrefix(metadata, marksPrefix)
	text, named := strings.CutPrefix(text, idPrefix)
	if plain == named || len(metadata) > maxMetadata {
		return topicID{}, marks{}, errForeignMarks
	}
	raw, err := base64.RawStdEncoding.Strict().DecodeString(text)
	if err != nil {
		return topicID{}, marks{}, errForeignMarks
	}
	if named {
		n := copy(id[:], raw)
		if n < len(id) || id == (topicID{}) {
			return topicID{}, marks{}, errForeignMarks
		}
		if raw = raw[n:]; len(raw) == 0 {
			return id, marks{}, nil
		}
	}
	m, err := decodeKind(raw)
	if err != nil {
		return topicID{}, marks{}, err
	}
	return id, m, nil
}

func decodeKind(raw []byte) (marks, error) {
	if len(raw) < 2 {
		return marks{}, errForeignMarks
	}
	switch raw[0] {
	case kindRuns:
		return decodeRuns(raw[1:])
	case kindBits:
		return decodeBits(raw[1:])
	}
	return marks{}, errForeignMarks
}

func decodeRuns(raw []byte) (marks, error) {
	var m marks
	at, complete := uint64(0), false
	for ; len(raw) > 0; complete = !complete {
		run, n := binary.Uvarint(raw)
		if n <= 0 || run == 0 || run > spanCap || at+run > spanCap {
			return marks{}, errForeignMarks
		}
		for i := at; complete && i < at+run; i++ {
			m.set(int64(i))
		}
		at, raw = at+run, raw[n:]
	}
	if complete { // the next one would be: the last run was not
		return marks{}, errForeignMarks
	}
	return m, nil
}

func decodeBits(raw []byte) (marks, error) {
	if len(raw) >= maxMarkBytes || raw[len(raw)-1] == 0 || raw[0]&1 != 0 {
		return marks{}, errForeignMarks
	}
	var m marks
	for i, b := range raw {
		for b != 0 {
			m.set(int64(i*8 + bits.TrailingZeros8(b)))
			b &= b - 1
		}
	}
	return m, nil
}
