package offsets

import (
	"encoding/base64"
	"encoding/binary"
	"math/bits"
)

// Bitmap are the offsets, counted from a commit point, that are complete though
// an earlier one is not. They travel in the metadata of the offset commit, as kind
// and payload; see [Metadata].
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
type Bitmap struct {
	N    int // offsets from the commit point to the last complete one
	bits [Window / 64]uint64
}

const (
	kindRuns     = 0
	kindBits     = 1
	maxBitmapBytes = 1 + Window/8
)

func (m *Bitmap) set(i int64) {
	m.bits[i/64] |= 1 << (i % 64)
	m.N = max(m.N, int(i)+1)
}

// Has tells whether an offset, counted from the committed one, is complete.
func (m *Bitmap) Has(i int64) bool { return m.bits[i/64]&(1<<(i%64)) != 0 }

// from counts the marks from a later offset on.
func (m *Bitmap) from(by int64) Bitmap {
	if by == 0 {
		return *m
	}
	var later Bitmap
	for i := by; i < int64(m.N); i++ {
		if m.Has(i) {
			later.set(i - by)
		}
	}
	return later
}

// runEnd returns where the run that begins at i ends.
func (m *Bitmap) runEnd(i int) int {
	first := m.Has(int64(i))
	for i < m.N {
		word := m.bits[i/64]
		if first {
			word = ^word
		}
		if word >>= i % 64; word != 0 {
			return min(i+bits.TrailingZeros64(word), m.N)
		}
		i = (i/64 + 1) * 64
	}
	return m.N
}

// Encode renders the metadata of a commit of which the topic's id is not known.
func (m *Bitmap) Encode() string {
	if m.N == 0 {
		return ""
	}
	return prefixV1 + base64.RawStdEncoding.EncodeToString(m.append(nil))
}

// append adds kind and payload; nothing if nothing is complete.
func (m *Bitmap) append(to []byte) []byte {
	if m.N == 0 {
		return to
	}
	from, limit := len(to), 1+(m.N+7)/8
	buf := append(make([]byte, 0, from+limit+binary.MaxVarintLen16), to...)
	buf = append(buf, kindRuns)
	for i := 0; i < m.N && len(buf) <= from+limit; {
		end := m.runEnd(i)
		buf = binary.AppendUvarint(buf, uint64(end-i))
		i = end
	}
	if len(buf) > from+limit {
		buf = m.appendBits(append(buf[:from], kindBits))
	}
	return buf
}

func (m *Bitmap) appendBits(buf []byte) []byte {
	for i := range (m.N + 7) / 8 {
		buf = append(buf, byte(m.bits[i/8]>>(i%8*8)))
	}
	return buf
}

// decodeBitmap reads kind and payload; not ok: they are someone else's.
func decodeBitmap(raw []byte) (m Bitmap, ok bool) {
	if len(raw) < 2 {
		return Bitmap{}, false
	}
	switch raw[0] {
	case kindRuns:
		return decodeRuns(raw[1:])
	case kindBits:
		return decodeBits(raw[1:])
	}
	return Bitmap{}, false
}

func decodeRuns(raw []byte) (Bitmap, bool) {
	var m Bitmap
	at, complete := uint64(0), false
	for ; len(raw) > 0; complete = !complete {
		run, n := binary.Uvarint(raw)
		if n <= 0 || run == 0 || run > Window || at+run > Window {
			return Bitmap{}, false
		}
		for i := at; complete && i < at+run; i++ {
			m.set(int64(i))
		}
		at, raw = at+run, raw[n:]
	}
	if complete { // the next one would be: the last run was not
		return Bitmap{}, false
	}
	return m, true
}

func decodeBits(raw []byte) (Bitmap, bool) {
	if len(raw) >= maxBitmapBytes || raw[len(raw)-1] == 0 || raw[0]&1 != 0 {
		return Bitmap{}, false
	}
	var m Bitmap
	for i, b := range raw {
		for b != 0 {
			m.set(int64(i*8 + bits.TrailingZeros8(b)))
			b &= b - 1
		}
	}
	return m, true
}
