package batches_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"dispatcher/consumer/internal/batches"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// codecs are all of Kafka's.
var codecs = map[kgo.CompressionCodecType]kgo.CompressionCodec{
	kgo.CodecNone: kgo.NoCompression(), kgo.CodecGzip: kgo.GzipCompression(), kgo.CodecSnappy: kgo.SnappyCompression(),
	kgo.CodecLz4: kgo.Lz4Compression(), kgo.CodecZstd: kgo.ZstdCompression(),
}

// batch is a batch of records whose values have these sizes, and its size when it is unpacked.
func batch(t rapid.TB, first int64, sizes []int, codec kgo.CompressionCodecType) (wire []byte, unpacked int) {
	t.Helper()
	var records []byte
	for i, size := range sizes {
		r := kmsg.Record{OffsetDelta: int32(i), Value: make([]byte, size)} //nolint:gosec // a small number
		r.Length = int32(len(r.AppendTo(nil)) - 1)                         //nolint:gosec // a small number
		records = r.AppendTo(records)
	}
	c, err := kgo.DefaultCompressor(codecs[codec])
	if err != nil {
		t.Fatal(err)
	}
	unpacked = len(records)
	if c != nil {
		records, codec = c.Compress(new(bytes.Buffer), records)
	}
	b := kmsg.RecordBatch{
		FirstOffset: first, Magic: 2, Attributes: int16(codec), LastOffsetDelta: int32(len(sizes) - 1), //nolint:gosec // a small number
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(sizes)), Records: records, //nolint:gosec // a small number
	}
	const behindLength, crcAt, behindCRC = 12, 17, 21
	wire = b.AppendTo(nil)
	binary.BigEndian.PutUint32(wire[8:], uint32(len(wire)-behindLength)) //nolint:gosec // a small number
	binary.BigEndian.PutUint32(wire[crcAt:], crc32.Checksum(wire[behindCRC:], crc32.MakeTable(crc32.Castagnoli)))
	return wire, unpacked
}

// An answer is read in parts, none of which unpacks to more than is taken. Each record is read once and in order, but for those of a
// batch that takes too much alone: that one is named.
func TestWhatAnAnswerUnpacksToIsBounded(t *testing.T) {
	t.Parallel()
	const most = 4000
	u := batches.NewUnpacker(most)
	rapid.Check(t, func(t *rapid.T) {
		codec := rapid.SampledFrom([]kgo.CompressionCodecType{kgo.CodecNone, kgo.CodecGzip, kgo.CodecSnappy, kgo.CodecLz4, kgo.CodecZstd}).Draw(t, "codec")
		type sent struct {
			wire        []byte
			first, next int64
			unpacked    int
		}
		var all []sent
		var end int64
		one := rapid.OneOf(rapid.SliceOfN(rapid.IntRange(0, 400), 1, 25), rapid.SliceOfN(rapid.IntRange(200, 400), 12, 25)) // small, or about most
		for _, sizes := range rapid.SliceOfN(one, 1, 8).Draw(t, "sizes") {
			wire, unpacked := batch(t, end, sizes, codec)
			all = append(all, sent{wire, end, end + int64(len(sizes)), unpacked})
			end += int64(len(sizes))
		}
		for at := int64(0); at < end; {
			for at >= all[0].next {
				all = all[1:]
			}
			var res kmsg.FetchResponseTopicPartition
			for _, b := range all {
				res.RecordBatches = append(res.RecordBatches, b.wire...)
			}
			records, next, err := u.CommittedRecords(&res, at)
			if large, ok := errors.AsType[*batches.TooLargeError](err); ok {
				if codec == kgo.CodecNone || all[0].unpacked <= most || large.First != all[0].first || large.Next != all[0].next {
					t.Fatalf("at %d, batches %+v: got %v", at, all[0], err)
				}
				at = large.Next
				continue
			}
			if err != nil || next <= at || int64(len(records)) != next-at {
				t.Fatalf("at %d: got %d records, next %d, %v", at, len(records), next, err)
			}
			taken := 0
			for _, b := range all {
				if b.first < next {
					taken += b.unpacked
				}
			}
			if codec != kgo.CodecNone && taken > most {
				t.Fatalf("at %d: got %d bytes up to %d, want at most %d", at, taken, next, most)
			}
			for i, r := range records {
				if r.Offset != at+int64(i) {
					t.Fatalf("at %d: record %d has offset %d", at, i, r.Offset)
				}
			}
			at = next
		}
	})
}

// A batch of very many small records is refused though it unpacks to few bytes.
func TestABatchOfTooManyRecordsIsRefused(t *testing.T) {
	t.Parallel()
	u := batches.NewUnpacker(64 << 20)
	for _, c := range []struct {
		records int
		refused bool
	}{{1 << 18, false}, {1<<18 + 1, true}} {
		wire, _ := batch(t, 5, make([]int, c.records), kgo.CodecZstd)
		records, _, err := u.CommittedRecords(&kmsg.FetchResponseTopicPartition{RecordBatches: wire}, 5)
		large, refused := errors.AsType[*batches.TooLargeError](err)
		if refused != c.refused || refused && large.Next != 5+int64(c.records) || !refused && (err != nil || len(records) != c.records) {
			t.Errorf("%d records: got %d and %v", c.records, len(records), err)
		}
	}
}
