package batches

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a batch may unpack to where nothing else is set, and the least that may be set: zstd refuses a batch whose window is larger
// than that, and some producers use windows of 8 MiB for small batches as well.
const (
	DefaultMaxBytes = 64 << 20
	LeastMaxBytes   = 8 << 20
)

const (
	// mostRecords is how many records a compressed batch may hold. A record of a few bytes takes hundreds in memory.
	mostRecords = 1 << 18
	// leastRecord is the size of a record without key, value and headers, less that of its length.
	leastRecord = 6
)

// Unpacker reads records from answers. It bounds the memory that one partition's part of an answer takes: a batch of a few
// kilobytes may unpack to gigabytes.
type Unpacker struct {
	maxBytes int
	codec    func() (kgo.Decompressor, error) // made at the first call: most clients read no records
}

// NewUnpacker makes an unpacker of batches that unpack to at most so many bytes.
func NewUnpacker(maxBytes int) *Unpacker {
	return &Unpacker{maxBytes: maxBytes, codec: sync.OnceValues(func() (kgo.Decompressor, error) { return newCodec(maxBytes) })}
}

// newCodec makes a decompressor that refuses a batch that unpacks to more. kgo has no other way to a bounded one.
func newCodec(maxBytes int) (kgo.Decompressor, error) {
	cl, err := kgo.NewClient(kgo.MaxDecompressBatchBytes(maxBytes))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	codec, ok := cl.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	if !ok {
		return nil, errors.New("kgo has no decompressor")
	}
	return codec, nil
}

// A TooLargeError says that a batch was not read, since it takes more memory than a node gives it.
type TooLargeError struct {
	First, Next int64 // offsets: of the batch, and behind it
	Reason      string
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the batch of the offsets %d to %d %s; nothing behind it is read. docs/operations.md says how to pass it over: Sizes",
		e.First, e.Next-1, e.Reason)
}

// CommittedRecords reads one partition's part of an answer, from offset at on. It also returns the offset of the next fetch. The
// records are valid as long as the answer. Where they take too much memory together, it returns those of the first batches; where
// the first batch alone does, a [TooLargeError].
func (u *Unpacker) CommittedRecords(res *kmsg.FetchResponseTopicPartition, at int64) ([]*kgo.Record, int64, error) {
	unpack := unpacking{u: u, bytes: u.maxBytes, records: mostRecords}
	part, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: at, IsolationLevel: kgo.ReadCommitted(), Partition: res.Partition,
	}, res, &unpack, nil)
	if part.Err != nil && next == at {
		if large, ok := errors.AsType[*kgo.ErrDecompressTooLarge](part.Err); ok {
			return nil, at, &TooLargeError{First: large.Offset, Next: large.NextOffset, Reason: unpack.reason}
		}
		return nil, at, fmt.Errorf("read records from offset %d: %w", at, part.Err)
	}
	return part.Records, next, nil // an error behind these records occurs again at the next fetch
}

// errNextTime stops at a batch for which the batches before left no room.
var errNextTime = errors.New("the batches before it take what an answer may unpack to")

// unpacking is the unpacking of one part of an answer, and what it may still take.
type unpacking struct {
	u              *Unpacker
	bytes, records int
	begun          bool   // there is a batch before
	reason         string // why a batch is too large alone
}

// Decompress implements [kgo.Decompressor].
func (u *unpacking) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if codec == kgo.CodecNone {
		return src, nil // no larger than the broker lets it be
	}
	if u.bytes <= 0 || u.records <= 0 {
		return nil, errNextTime
	}
	unpack, err := u.u.codec()
	if err != nil {
		return nil, err
	}
	out, err := unpack.Decompress(src, codec)
	if err != nil {
		if errors.Is(err, kgo.ErrMaxDecompress) {
			u.reason = fmt.Sprintf("unpacks to more than kafka.max_batch_bytes of %d: raise it and restart the nodes", u.u.maxBytes)
		}
		return nil, err
	}
	records := countRecords(out)
	if records > mostRecords {
		u.reason = fmt.Sprintf("holds %d records, and at most %d are taken", records, mostRecords)
		return nil, kgo.ErrMaxDecompress
	}
	u.bytes -= len(out)
	u.records -= records
	if u.begun && (u.bytes < 0 || u.records < 0) {
		return nil, errNextTime
	}
	u.begun = true
	return out, nil
}

// countRecords counts the records of an unpacked batch. It stops where there is none.
func countRecords(batch []byte) (n int) {
	for len(batch) > 0 {
		length, size := binary.Varint(batch)
		if size <= 0 || length < leastRecord || length > int64(len(batch)-size) {
			return n
		}
		batch = batch[size+int(length):]
		n++
	}
	return n
}
