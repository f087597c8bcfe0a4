package broker

import "dispatcher/job"

const (
	deliveryBytes = 512 // about the memory of a delivery without its record
	headerBytes   = 40  // about the memory of a header without its text
)

// RecordBytes estimates the memory of a delivery of the record. Headers count: a producer may
// put a megabyte there as well as into the value.
func RecordBytes(rec *job.Record) int {
	size := deliveryBytes + len(rec.Key) + len(rec.Value)
	for i := range rec.Headers {
		size += headerBytes + len(rec.Headers[i].Key) + len(rec.Headers[i].Value)
	}
	return size
}
