// Package batches reads record batches from a broker's answers to fetches, and bounds the memory
// that they take: [Unpacker] unpacks them and drops what belongs to no committed transaction,
// [RecordBytes] estimates what one record takes.
//
// It does no I/O, and does not know what a job is: it neither reads headers nor decides what
// becomes of a record. Package broker sends the requests.
//
// Goroutines: it starts none. An [Unpacker] may be used by any goroutine.
package batches
