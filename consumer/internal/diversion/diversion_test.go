package diversion

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/offsets"
)

// Through retry topics and a last wait in memory a job is due exactly at its time: each delay
// is over in time, and the rest at the end is shorter than the first delay.
func TestDelaysNeverOvershoot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		delays := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(1, 3600).Draw(t, "seconds")) * time.Second
		}), 1, 8, rapid.ID).Draw(t, "delays")
		slices.Sort(delays)
		left := time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "wait"))
		passes := 0
		for one := delay(delays, left); one > 0; one = delay(delays, left) {
			if i := slices.Index(delays, one); i+1 < len(delays) && delays[i+1] <= left {
				t.Fatalf("got delay %v for a wait of %v, want %v", one, left, delays[i+1])
			}
			left -= one
			if passes++; left < 0 {
				t.Fatalf("got a delay of %v, want one that is %v shorter", one, -left)
			}
		}
		if left >= delays[0] {
			t.Fatalf("got %v left, want less than the first delay of %v", left, delays[0])
		}
	})
}

// A job that is not due goes to the retry topic that suits its wait, rests in memory, or is a dead letter where it can wait in
// neither.
func TestAJobThatIsNotDueGoesWhereItCanWait(t *testing.T) {
	t.Parallel()
	due, had := time.Unix(1000, 0), offsets.Attempts{Calls: 3, Failures: 2}
	topics := []time.Duration{time.Minute, time.Hour}
	for name, c := range map[string]struct {
		delays []time.Duration
		wait   time.Duration
		want   *Diversion
	}{
		"longer than a topic's delay": {topics, 2 * time.Minute, &Diversion{Failure: deadletter.Failure{Calls: 3, Failures: 2}, Delay: time.Minute, Due: due}},
		"shorter than all":            {topics, time.Second, nil},
		"no topics, a short wait":     {nil, MaxUntilDue, nil},
		"no topics, a long wait": {nil, MaxUntilDue + 1, &Diversion{Failure: deadletter.Failure{
			Class: deadletter.ClassUnsupported, Calls: 3, Message: "not-before: is more than 1m0s ahead; kafka.retry_topics would allow it",
		}}},
	} {
		got := NotDue(c.delays, c.wait, due, had)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// A job that timed out comes again after a delay as long as the timeout, the shortest where that is longer. Without retry topics it is a
// dead letter.
func TestAJobThatTimedOutComesAgain(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for want, delays := range map[time.Duration][]time.Duration{
		0:                nil,
		time.Minute:      {time.Minute, time.Hour},
		30 * time.Second: {10 * time.Second, 30 * time.Second, time.Hour},
	} {
		got := TimedOut(delays, 30*time.Second, offsets.Attempts{Calls: 1}, now)
		due := time.Time{}
		if want > 0 {
			due = now.Add(want)
		}
		if got.Delay != want || !got.Due.Equal(due) || got.Failure.Class != deadletter.ClassJobTimeout || got.Failure.Calls != 1 {
			t.Errorf("delays %v: got %+v, want a delay of %v", delays, got, want)
		}
	}
}
