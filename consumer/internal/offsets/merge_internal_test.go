package offsets

import (
	"testing"

	"pgregory.net/rapid"
)

// command is one command that settles dead letters of a partition.
type command struct {
	tracker   Tracker
	read      int     // records of the log
	open      []int64 // admitted
	completed []int64 // since the last save
}

// Two commands settle letters in turn, and each merges what Kafka has before it saves. At the
// end, exactly the letters that were settled and saved are settled.
func TestTwoCommandsMergeWhatTheySettled(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		gaps := rapid.SliceOfN(rapid.SampledFrom([]int64{1, 1, 1, 1, 2, 7, Window - 1, Window, 2 * Window}), 1, 60).Draw(t, "gaps")
		var log []int64
		at := int64(-1)
		for _, g := range gaps {
			at += g
			log = append(log, at)
		}
		base, text := int64(0), "" // that Kafka has
		settled := map[int64]bool{}
		commands := [2]command{{tracker: NewTracker(0)}, {tracker: NewTracker(0)}}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			d := &commands[rapid.IntRange(0, 1).Draw(t, "command")]
			switch rapid.SampledFrom([]string{"read", "read", "settle", "save"}).Draw(t, "step") {
			case "read":
				if d.read < len(log) {
					switch d.tracker.Admit(log[d.read]) {
					case Admitted:
						d.open = append(d.open, log[d.read])
						d.read++
					case AlreadyComplete:
						d.read++
					case BeyondWindow:
					}
				}
			case "settle":
				if len(d.open) > 0 {
					o := rapid.SampledFrom(d.open).Draw(t, "letter")
					d.tracker.Complete(o)
					d.completed = append(d.completed, o)
				}
			case "save":
				m, err := DecodeMetadata(text)
				if err != nil {
					t.Fatal(err)
				}
				d.tracker.Merge(base, &m.Bitmap)
				s := d.tracker.Snapshot()
				base, text = s.Low, s.Bitmap.Encode()
				for _, o := range d.completed {
					settled[o] = true
				}
				d.completed = nil
			}
		}
		m, err := DecodeMetadata(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range log {
			got := o < base || o-base < Window && m.Bitmap.Has(o-base)
			if got != settled[o] {
				t.Fatalf("letter %d of %v: got settled %v, want %v; Kafka has %d %q", o, log, got, settled[o], base, text)
			}
		}
	})
}
