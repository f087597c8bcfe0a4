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
// # Format v1 (frozen)
//
//	"v1;" base64(kind payload)      standard alphabet, no padding, ≤ 4096 characters
//
// kind 0 is a list of unsigned varints: the lengths of runs, by turns not
// complete and complete, the first one beginning at the committed offset. Each
// is at least 1, and the last run is a complete one.
//
// kind 1 is a bit set: bit i%8 (from the least significant) of byte i/8 is set
// when committed offset + i is complete. The last byte is not 0.
//
// A writer takes the shorter one. Nothing complete is the empty string. The
// runs come to at most 8192 offsets. The committed offset itself is never
// complete. Metadata that differs in anything is someone else's, and ignored.
type marks struct {
	n    int // offsets from the commit point to the last complete one
	bits [spanCap / 64]uint64
}

const (
	marksPrefix  = "v1;"
	kindRuns     = 0
	kindBits     = 1
	maxMetadata  = 4096 // a broker's offset.metadata.max.bytes by default
	maxMarkBytes = 1 + spanCap/8
)

var errForeignMarks = errors.New("metadata is not in format v1")

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

// encode renders the metadata of a commit.
func (m *marks) encode() string {
	if m.n == 0 {
		return ""
	}
	limit := 1 + (m.n+7)/8
	buf := append(make([]byte, 0, limit+binary.MaxVarintLen16), kindRuns)
	for i := 0; i < m.n && len(buf) <= limit; {
		end := m.runEnd(i)
		buf = binary.AppendUvarint(buf, uint64(end-i))
		i = end
	}
	if len(buf) > limit {
		buf = m.appendBits(append(buf[:0], kindBits))
	}
	return marksPrefix + base64.RawStdEncoding.EncodeToString(buf)
}

func (m *marks) appendBits(buf []byte) []byte {
	for i := range (m.n + 7) / 8 {
		buf = append(buf, byte(m.bits[i/8]>>(i%8*8)))
	}
	return buf
}

// decodeMarks reads the metadata of a commit. An empty one means no marks.
func decodeMarks(metadata string) (marks, error) {
	if metadata == "" {
		return marks{}, nil
	}
	text, ok := strings.CutPrefix(metadata, marksPrefix)
	if !ok || len(metadata) > maxMetadata {
		return marks{}, errForeignMarks
	}
	raw, err := base64.RawStdEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < 2 {
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
