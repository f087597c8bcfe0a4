package fetch

import (
	"testing"

	"dispatcher/consumer/internal/schedule"
)

// BenchmarkBatch copies and decodes a batch of 1,000 jobs of 200 bytes with three headers.
func BenchmarkBatch(b *testing.B) {
	m, records := newMaker(), recordsOf(0, 1000, 200)
	b.ReportAllocs()
	for b.Loop() {
		m.build(&schedule.Batch{}, records)
	}
}
