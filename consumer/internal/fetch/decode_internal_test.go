package fetch

import (
	"strings"
	"testing"
	"time"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/schedule"
	"dispatcher/job"
)

// Whatever the record of a retry topic says, it is looked at no later than its delay after
// now, it counts nothing below zero, and the job's own not-before holds.
func FuzzRetryMetadata(f *testing.F) {
	f.Add("3", "2", "2026-03-01T12:00:00Z", "2026-03-01T11:00:00Z", int64(0))
	f.Add("-1", "x", "", "9999-12-31T23:59:59Z", int64(-1))
	f.Add("99999999999", "", "0000-01-01T00:00:00Z", "", int64(1)<<60)
	f.Fuzz(func(t *testing.T, attempt, failures, notBefore, original string, stamp int64) {
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		j := job.Job{NotBefore: now.Add(time.Minute), Record: job.Record{Time: time.UnixMilli(stamp % (1 << 50)), Headers: []job.Header{
			{Key: deadletter.HeaderAttempt, Value: []byte(attempt)},
			{Key: strings.ToUpper(deadletter.HeaderFailures), Value: []byte(failures)},
			{Key: deadletter.HeaderNotBefore, Value: []byte(notBefore)},
			{Key: deadletter.HeaderOriginalTime, Value: []byte(original)},
		}}}
		got := schedule.Prepared{Due: j.NotBefore}
		readRetry(&got, &j, 5*time.Second, now)
		if got.LookAt.After(now.Add(5*time.Second)) || got.Attempts.Calls < 0 || got.Attempts.Failures < 0 || got.Due.Before(j.NotBefore) {
			t.Errorf("got %+v, want a LookAt within 5s of %v, no negative attempts, and a Due from %v on", got, now, j.NotBefore)
		}
	})
}
