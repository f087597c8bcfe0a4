package batches

import "dispatcher/job"

// HeaderBytes is about the memory of a header without its text.
const HeaderBytes = 40

// deliveryBytes is about the memory of a delivery without its record.
const deliveryBytes = 512

// RecordBytes estimates the memory of a delivery of the record. Headers count: a producer may
// put a megabyte there as well as into the value.
func RecordBytes(rec *job.Record) int {
	size := deliveryBytes + len(rec.Key) + len(rec.Value)
	for i := range rec.Headers {
		size += HeaderBytes + len(rec.Headers[i].Key) + len(rec.Headers[i].Value)
	}
	return size
}
