package consumer_test

import (
	"testing"

	"dispatcher/consumer/dlq"
	"dispatcher/job"
)

// A dry drop counts what a drop would settle, settles nothing, and commits nothing.
func TestADryDropSettlesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs.dlq", deadRecords(700)...) // more than one batch
		tally, err := w.dlqClient().Drop(w.t.Context(), allLetters, true)
		if err != nil || tally.Done != 700 || tally.Open != 700 {
			t.Errorf("dry run: got %+v and error %v, want 700 done", tally, err)
		}
		if offset, _ := w.committed("jobs.dlq", 0); offset > 0 {
			t.Errorf("dry run: got offset %d committed, want none", offset)
		}
		if open, _ := w.openLetters(allLetters); len(open) != 700 {
			t.Errorf("got %d letters open after a dry run, want 700", len(open))
		}
		if tally, err = w.dlqClient().Drop(w.t.Context(), allLetters, false); err != nil || tally.Done != 700 {
			t.Errorf("got %+v and error %v, want 700 dropped", tally, err)
		}
	}, "jobs", "jobs.dlq")
}

// A command tries a letter beyond the bitmap's reach again after it has settled the letters
// before it: that moves the reach.
func TestALetterBeyondReachIsTriedAgainAfterACommit(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		const reach = 8192
		letters := make([]job.Record, reach+1)
		for i := range letters {
			letters[i] = deadRecord("between", i)
		}
		letters[0], letters[reach] = deadRecord("end", 0), deadRecord("end", reach)
		for i := 0; i < len(letters); i += 1000 {
			w.produce("jobs.dlq", letters[i:min(i+1000, len(letters))]...)
		}
		between := dlq.Filter{Topics: []string{"jobs"}, Key: []byte("kbetween")}
		if tally, err := w.dlqClient().Drop(w.t.Context(), between, false); err != nil || tally.Done != reach-1 {
			t.Fatalf("got %d dropped and error %v, want %d", tally.Done, err, reach-1)
		}
		ends := dlq.Filter{Topics: []string{"jobs"}, Key: []byte("kend")}
		tally, err := w.dlqClient().Drop(w.t.Context(), ends, false)
		if err != nil || tally.Matched != 2 || tally.Done != 2 || tally.OutOfReach != 0 {
			t.Errorf("got %+v and error %v, want both ends dropped in one run", tally, err)
		}
	}, "jobs", "jobs.dlq")
}
