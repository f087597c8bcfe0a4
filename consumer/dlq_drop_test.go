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
		w.produce("jobs.dlq", deadOnes(700)...) // more than one batch
		tally, err := w.desk().Drop(w.t.Context(), ofJobs, true)
		if err != nil || tally.Done != 700 || tally.Open != 700 {
			t.Errorf("got %+v, %v", tally, err)
		}
		if offset, _ := w.committed("jobs.dlq", 0); offset > 0 {
			t.Errorf("got offset %d committed by a dry run", offset)
		}
		if open, _ := w.list(ofJobs); len(open) != 700 {
			t.Errorf("got %d letters open after a dry run, want 700", len(open))
		}
		if tally, err = w.desk().Drop(w.t.Context(), ofJobs, false); err != nil || tally.Done != 700 {
			t.Errorf("got %+v, %v", tally, err)
		}
	}, "jobs", "jobs.dlq")
}

// A letter that lies beyond the reach of the bitmap is asked for again once what
// lies before it has been settled: the reach begins behind that.
func TestALetterBeyondReachIsTriedAgainAfterACommit(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		const reach = 8192
		letters := make([]job.Record, reach+1)
		for i := range letters {
			letters[i] = dead("between", i)
		}
		letters[0], letters[reach] = dead("end", 0), dead("end", reach)
		for i := 0; i < len(letters); i += 1000 {
			w.produce("jobs.dlq", letters[i:min(i+1000, len(letters))]...)
		}
		between := dlq.Filter{Topics: []string{"jobs"}, Key: []byte("kbetween")}
		if tally, err := w.desk().Drop(w.t.Context(), between, false); err != nil || tally.Done != reach-1 {
			t.Fatalf("got %d dropped, %v", tally.Done, err)
		}
		ends := dlq.Filter{Topics: []string{"jobs"}, Key: []byte("kend")}
		tally, err := w.desk().Drop(w.t.Context(), ends, false)
		if err != nil || tally.Matched != 2 || tally.Done != 2 || tally.OutOfReach != 0 {
			t.Errorf("got %+v, %v, want both ends dropped in one run", tally, err)
		}
	}, "jobs", "jobs.dlq")
}
