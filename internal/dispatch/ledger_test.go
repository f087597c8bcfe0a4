package dispatch

import (
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/internal/sendledger"
	"dispatcher/job"
	"dispatcher/throttle"
)

// What a done notes of a dead job comes back as it was, and fits into the ledger.
// The numbers are Redis's memory: they must not change.
func TestNotesComeBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		class  consumer.Class
		status int
		want   sendledger.Outcome
	}{
		{consumer.ClassPermanent, 400, 1400},
		{consumer.ClassPermanent, 0, 1000},
		{consumer.ClassExhausted, 503, 2503},
		{consumer.ClassUnknown, 0, 3000},
		{consumer.ClassExhausted, 999, 2999},
	} {
		o := note(c.class, c.status)
		class, r := noted(o)
		if o != c.want || class != c.class || r.Status != c.status || r.Err == nil {
			t.Errorf("%s, %d: got %d, which means %s, %d, %v", c.class, c.status, o, class, r.Status, r.Err)
		}
	}
	if o := note(consumer.ClassUnknown, 1<<20); o > sendledger.MaxOutcome || o == noteAccepted {
		t.Errorf("got %d of a status that can't be, want at most %d", o, sendledger.MaxOutcome)
	}
	if class, _ := noted(sendledger.MaxOutcome); class != consumer.ClassUnknown {
		t.Errorf("got %s of a note of a later release, want unknown", class)
	}
}

// However high the rate is, with the ledger a job is handed out so early that its
// claim is there before its slot.
func TestALineThatClaimsHandsOutEarlier(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cap           int64
		plain, claims time.Duration
	}{
		{10, near, nearClaimed},
		{1000, near, nearClaimed},
		{10_000, 1_616 * time.Microsecond, leastClaimed},
	} {
		lim, err := throttle.New(throttle.Options{
			Scope: throttle.ScopeNode, Namespace: "ns", Name: "provider", Node: "n", Waiting: func() int { return 0 },
			Seed: throttle.Contract{Cap: c.cap, Window: time.Second, Burst: 1, Guard: 10 * time.Millisecond, Lateness: 3 * time.Millisecond, Horizon: 200 * time.Millisecond},
		})
		if err != nil {
			t.Fatal(err)
		}
		plain, claims := (&line{limiter: lim}).lead(), (&line{limiter: lim, claims: true}).lead()
		if plain.Round(time.Microsecond) != c.plain || claims != c.claims {
			t.Errorf("%d a second: got %v, and %v with claims; want %v and %v", c.cap, plain, claims, c.plain, c.claims)
		}
	}
}

// A job that has no id of its own is told by its place and its time, one that has
// by nothing else; each replay makes another one of it.
func TestWhatNamesAJobToTheLedger(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_000)
	own, placed := &job.Job{ID: "jobs/0/1"}, &job.Job{ID: "jobs/0/1", Placed: true}
	names := map[string]bool{}
	for _, name := range []string{
		entryID(own, at, 0), entryID(placed, at, 0), entryID(placed, at.Add(time.Millisecond), 0), entryID(own, at, 1), entryID(placed, at, 1), entryID(own, at, 2),
	} {
		names[name] = true
	}
	if len(names) != 6 {
		t.Errorf("got %d names, want 6 different ones: %v", len(names), names)
	}
	if entryID(own, at, 0) != entryID(own, at.Add(time.Hour), 0) || entryID(placed, at, 0) != entryID(placed, at.UTC(), 0) {
		t.Error("one job has two names")
	}
}
