package consumer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"dispatcher/consumer/deadletter"

	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/fault"
	"dispatcher/job"

	"pgregory.net/rapid"
)

// By way of tiers and a last wait in memory a job is due exactly when it is due:
// each tier is over in time, and what is left at the end is shorter than the
// first one.
func TestTiersNeverOvershoot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tiers := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(1, 3600).Draw(t, "seconds")) * time.Second
		}), 1, maxTiers, rapid.ID).Draw(t, "tiers")
		slices.Sort(tiers)
		var l fault.List
		if checkRetryTopics(&l, tiers); l.Err() != nil {
			t.Fatal(l.Err())
		}
		left := time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "wait"))
		hops := 0
		for tier := tierFor(tiers, left); tier > 0; tier = tierFor(tiers, left) {
			if i := slices.Index(tiers, tier); i+1 < len(tiers) && tiers[i+1] <= left {
				t.Fatalf("got tier %v for %v, and %v would do", tier, left, tiers[i+1])
			}
			left -= tier
			if hops++; left < 0 {
				t.Fatalf("tier %v is %v too long", tier, -left)
			}
		}
		if left >= tiers[0] {
			t.Fatalf("got %v left, want less than the first tier of %v", left, tiers[0])
		}
	})
}

func TestTierNames(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		time.Second: "t.retry.1s", 90 * time.Second: "t.retry.1m30s", time.Minute: "t.retry.1m", 10 * time.Minute: "t.retry.10m", time.Hour: "t.retry.1h",
	} {
		if got := topicname.Retry("t", d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

// Whatever a tier's record says, its gate is no further away than its tier is
// long, it counts nothing below zero, and the job's own not-before holds.
func FuzzWhatATierSays(f *testing.F) {
	f.Add("3", "2", "2026-03-01T12:00:00Z", "2026-03-01T11:00:00Z", int64(0))
	f.Add("-1", "x", "", "9999-12-31T23:59:59Z", int64(-1))
	f.Add("99999999999", "", "0000-01-01T00:00:00Z", "", int64(1)<<60)
	f.Fuzz(func(t *testing.T, attempt, failures, notBefore, original string, stamp int64) {
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		d := Delivery{Job: job.Job{NotBefore: now.Add(time.Minute), Record: job.Record{Time: time.UnixMilli(stamp % (1 << 50)), Headers: []job.Header{
			{Key: deadletter.HeaderAttempt, Value: []byte(attempt)},
			{Key: strings.ToUpper(deadletter.HeaderFailures), Value: []byte(failures)},
			{Key: deadletter.HeaderNotBefore, Value: []byte(notBefore)},
			{Key: deadletter.HeaderOriginalTime, Value: []byte(original)},
		}}}}
		h := d.comeBack(5*time.Second, now)
		if h.gate.After(now.Add(5*time.Second)) || d.attempts.Calls < 0 || d.attempts.Failures < 0 || h.due.Before(d.Job.NotBefore) {
			t.Errorf("got %+v of %+v", h, d.attempts)
		}
	})
}
