package offsets

import (
	"encoding/base64"
	"encoding/binary"
	"math/bits"
)

// Bitmap holds the offsets that are complete beyond the committed one. They are counted from
// the committed offset, which is never complete itself. The metadata of a commit holds them
// as a kind and a payload; see [Metadata].
//
// Kind 0 is a list of unsigned varints, the lengths of runs. Incomplete and complete runs
// alternate, beginning with an incomplete one at the committed offset. Each length is at least
// 1, and the last run is complete.
//
// Kind 1 is a bit set: bit i%8 (from the least significant) of byte i/8 is set when committed
// offset + i is complete. The last byte is not 0.
//
// A writer takes the shorter kind. The runs cover at most 8192 offsets. So the bit set has at
// most 1024 bytes, and v2 at most 3 + ⌈(16+1+1024)·8/6⌉ = 1391 characters.
type Bitmap struct {
	N    int // offsets from the committed one to the last complete one
	bits [Window / 64]uint64
}

const (
	kindRuns       = 0
	kindBits       = 1
	maxBitmapBytes = 1 + Window/8
)

func (b *Bitmap) set(i int64) {
	b.bits[i/64] |= 1 << (i % 64)
	b.N = max(b.N, int(i)+1)
}

// Has tells whether an offset, counted from the committed one, is complete.
func (b *Bitmap) Has(i int64) bool { return b.bits[i/64]&(1<<(i%64)) != 0 }

// from returns the bits from a later offset on, counted from there.
func (b *Bitmap) from(by int64) Bitmap {
	if by == 0 {
		return *b
	}
	var later Bitmap
	for i := by; i < int64(b.N); i++ {
		if b.Has(i) {
			later.set(i - by)
		}
	}
	return later
}

// runEnd returns where the run that begins at i ends.
func (b *Bitmap) runEnd(i int) int {
	first := b.Has(int64(i))
	for i < b.N {
		word := b.bits[i/64]
		if first {
			word = ^word
		}
		if word >>= i % 64; word != 0 {
			return min(i+bits.TrailingZeros64(word), b.N)
		}
		i = (i/64 + 1) * 64
	}
	return b.N
}

// Encode returns the metadata of a commit in v1, which holds no topic id.
func (b *Bitmap) Encode() string {
	if b.N == 0 {
		return ""
	}
	return prefixV1 + base64.RawStdEncoding.EncodeToString(b.append(nil))
}

// append appends kind and payload, or nothing if no offset is complete.
func (b *Bitmap) append(to []byte) []byte {
	if b.N == 0 {
		return to
	}
	from, limit := len(to), 1+(b.N+7)/8
	buf := append(make([]byte, 0, from+limit+binary.MaxVarintLen16), to...)
	buf = append(buf, kindRuns)
	for i := 0; i < b.N && len(buf) <= from+limit; {
		end := b.runEnd(i)
		buf = binary.AppendUvarint(buf, uint64(end-i))
		i = end
	}
	if len(buf) > from+limit {
		buf = b.appendBits(append(buf[:from], kindBits))
	}
	return buf
}

func (b *Bitmap) appendBits(buf []byte) []byte {
	for i := range (b.N + 7) / 8 {
		buf = append(buf, byte(b.bits[i/8]>>(i%8*8)))
	}
	return buf
}

// decodeBitmap reads kind and payload. It returns false if they are in another format.
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
	if complete { // the next run would be complete, so the last run was not
		return Bitmap{}, false
	}
	return m, true
}

func decodeBits(raw []byte) (Bitmap, bool) {
	if len(raw) >= maxBitmapBytes || raw[len(raw)-1] == 0 || raw[0]&1 != 0 {
		return Bitmap{}, false
	}
	var m Bitmap
	for i := range int64(len(raw)) * 8 {
		if raw[i/8]>>(i%8)&1 == 1 {
			m.set(i)
		}
	}
	return m, true
}
