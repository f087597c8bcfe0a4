package consumer

import (
	"encoding/base64"
	"encoding/binary"
	"math/bits"
)

// marks are the offsets, counted from a commit point, that are complete though
// an earlier one is not. They travel in the metadata of the offset commit, as kind
// and payload; see [metadata].
//
// Kind 0 is a list of unsigned varints: the lengths of runs, by turns not
// complete and complete, the first one beginning at the committed offset. Each
// is at least 1, and the last run is a complete one.
//
// Kind 1 is a bit set: bit i%8 (from the least significant) of byte i/8 is set
// when committed offset + i is complete. The last byte is not 0.
//
// A writer takes the shorter kind. The runs come to at most 8192 offsets, so the
// bit set has at most 1024 bytes and v2 at most 3 + ⌈(16+1+1024)·8/6⌉ = 1391
// characters. The committed offset itself is never complete.
type marks struct {
	n    int // offsets from the commit point to the last complete one
	bits [spanCap / 64]uint64
}

const (
	kindRuns     = 0
	kindBits     = 1
	maxMarkBytes = 1 + spanCap/8
)

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

// decodeMarks reads kind and payload; not ok: they are someone else's.
func decodeMarks(raw []byte) (m marks, ok bool) {
	if len(raw) < 2 {
		return marks{}, false
	}
	switch raw[0] {
	case kindRuns:
		return decodeRuns(raw[1:])
	case kindBits:
		return decodeBits(raw[1:])
	}
	return marks{}, false
}

func decodeRuns(raw []byte) (marks, bool) {
	var m marks
	at, complete := uint64(0), false
	for ; len(raw) > 0; complete = !complete {
		run, n := binary.Uvarint(raw)
		if n <= 0 || run == 0 || run > spanCap || at+run > spanCap {
			return marks{}, false
		}
		for i := at; complete && i < at+run; i++ {
			m.set(int64(i))
		}
		at, raw = at+run, raw[n:]
	}
	if complete { // the next one would be: the last run was not
		return marks{}, false
	}
	return m, true
}

func decodeBits(raw []byte) (marks, bool) {
	if len(raw) >= maxMarkBytes || raw[len(raw)-1] == 0 || raw[0]&1 != 0 {
		return marks{}, false
	}
	var m marks
	for i, b := range raw {
		for b != 0 {
			m.set(int64(i*8 + bits.TrailingZeros8(b)))
			b &= b - 1
		}
	}
	return m, true
}
