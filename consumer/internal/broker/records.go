package broker

import "dispatcher/job"

const (
	deliveryBytes = 512 // stands for what a delivery costs beside its record
	headerBytes   = 40  // stands for what a header costs beside its text
)

// RecordBytes is about what a delivery holds in memory. Headers count: a
// producer may put a megabyte there as well as into the value.
func RecordBytes(rec *job.Record) int {
	size := deliveryBytes + len(rec.Key) + len(rec.Value)
	for i := range rec.Headers {
		size += headerBytes + len(rec.Headers[i].Key) + len(rec.Headers[i].Value)
	}
	return size
}
