// Package batches reads record batches from a broker's answers to fetches, and bounds the memory
// that they take: [Unpacker] unpacks them and drops what belongs to no committed transaction,
// [RecordBytes] estimates what one record takes.
//
// It does no I/O, and neither reads headers nor decides what becomes of a record. Package broker
// sends the requests.
//
// Goroutines: it starts none, but for those of a kgo client that lives for a moment: it is the only
// way to a decompressor with a bound. An [Unpacker] may be used by any goroutine.
package batches
