// Package histogram makes the Prometheus histograms of all packages, so that each is also a native one: Prometheus may scrape
// either the classic buckets, which are stated, or native ones, which fit themselves to what is observed.
//
// It registers nothing, and starts no goroutine.
package histogram

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// What native buckets may cost. Each is at most a tenth wider than the one before it. A histogram with more of them than
// maxBuckets is reset, at most once an hour; in between it takes wider buckets.
const (
	bucketFactor = 1.1
	maxBuckets   = 160
	minReset     = time.Hour
)

// New makes a histogram with both kinds of buckets. A caller states the name, the help, constant labels and classic buckets.
func New(o prometheus.HistogramOpts) prometheus.Histogram {
	o.NativeHistogramBucketFactor, o.NativeHistogramMaxBucketNumber, o.NativeHistogramMinResetDuration = bucketFactor, maxBuckets, minReset
	return prometheus.NewHistogram(o)
}
