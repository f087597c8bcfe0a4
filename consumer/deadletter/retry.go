package deadletter

import (
	"time"

	"dispatcher/consumer/internal/offsets"
	"dispatcher/job"
)

// Retry is what a record of a retry topic says beside its job. A time is zero where the record
// does not say it.
type Retry struct {
	Attempts offsets.Attempts
	Due      time.Time // of the job
	Written  time.Time // of the job, when it was first written to Kafka
}

// ReadRetry reads the record of a retry topic.
func ReadRetry(rec *job.Record) Retry {
	r := Retry{Attempts: offsets.Attempts{Calls: count(rec, HeaderAttempt), Failures: count(rec, HeaderFailures)}}
	if at, ok := timeIn(rec, HeaderNotBefore); ok {
		r.Due = at
	}
	if at, ok := timeIn(rec, HeaderOriginalTime); ok {
		r.Written = at
	}
	return r
}
