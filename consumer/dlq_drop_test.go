package consumer_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"dispatcher/consumer"
	"dispatcher/consumer/deadletter"
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

// Letters that were settled beyond the end of a log that was cut mean nothing once the log has grown again, also where the
// command that found them settled nothing.
func TestLettersBeyondTheLogAreOpenLater(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		letters := make([]job.Record, 20)
		for i := range letters {
			letters[i] = deadRecord("rest", i)
		}
		letters[0] = deadRecord("first", 0)
		w.produce("jobs.dlq", letters[:10]...)
		drop := func(key string, want int64) {
			tally, err := w.dlqClient().Drop(w.t.Context(), dlq.Filter{Topics: []string{"jobs"}, Key: []byte(key)}, false)
			if err != nil || tally.Done != want {
				t.Fatalf("key %s: got %+v and error %v, want %d dropped", key, tally, err, want)
			}
		}
		drop("krest", 9)
		_, metadata := w.committed("jobs.dlq", 0) // the nine behind the offset are settled
		w.commit("jobs.dlq", 0, 5, metadata)      // 6 to 14, of a log that ends at 10
		drop("knone", 0)
		w.produce("jobs.dlq", letters[10:]...)
		if open, tally := w.openLetters(allLetters); len(open) != 15 || tally.Open != 15 {
			t.Errorf("got %v open, want the letters from 5 on", open)
		}
	}, "jobs", "jobs.dlq")
}

// A list goes on behind a letter, and says how far it came. Replay and Drop refuse that: it would settle the letters before.
func TestAListGoesOnBehindALetter(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs.dlq", deadRecords(5)...)
		f := allLetters
		f.After = deadletter.RecordID{Topic: "jobs.dlq", Offset: 2}
		if got, tally := w.openLetters(f); !slices.Equal(got, []string{"3", "4"}) || tally.Open != 2 || tally.ReadTo.Offset != 4 {
			t.Errorf("got %v and %+v, want the two letters behind offset 2", got, tally)
		}
		if _, err := w.dlqClient().Drop(w.t.Context(), f, false); err == nil {
			t.Error("got no error of a drop behind a letter")
		}
		f.After.Topic = "other.dlq"
		if _, err := w.dlqClient().List(w.t.Context(), f, nil); err == nil {
			t.Error("got no error of a letter on another topic")
		}
	}, "jobs", "jobs.dlq")
}

// A list that is out of time has shown the letters that it read, and says up to which.
func TestAListThatEndsEarlySaysHowFarItCame(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs.dlq", deadRecords(5)...)
		ctx, cancel := context.WithCancel(w.t.Context())
		shown := 0
		tally, err := w.dlqClient().List(ctx, allLetters, func(*deadletter.Letter) error {
			if shown++; shown == 2 {
				cancel()
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) || shown != 2 || tally.Done != 2 || tally.ReadTo.Offset != 1 {
			t.Errorf("got %d letters, %+v and %v, want two letters, and offset 1 as the last one", shown, tally, err)
		}
	}, "jobs", "jobs.dlq")
}

// A command says after each batch what it has done so far.
func TestACommandReportsEachBatch(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs.dlq", deadRecords(5)...)
		var done, read []int64
		client, err := dlq.New(dlq.Options{
			Connection: consumer.Connection{Brokers: []string{broker}, Dial: w.net.DialContext}, Group: "g",
			Settled:  func(t dlq.Tally) { done = append(done, t.Done) },
			Progress: func(passed, _ int64) { read = append(read, passed) },
		})
		w.ok(err)
		_, err = client.Replay(w.t.Context(), allLetters, dlq.ReplayOptions{Rate: 2})
		w.ok(err)
		if done, read = slices.Compact(done), slices.Compact(read); !slices.Equal(done, []int64{2, 4, 5}) || read[len(read)-1] != 5 || !slices.IsSorted(read) {
			t.Errorf("got %v done and %v read, want each batch of two", done, read)
		}
	}, "jobs", "jobs.dlq")
}
