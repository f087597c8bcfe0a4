package offsets

import (
	"testing"

	"pgregory.net/rapid"
)

// desk is what one command knows of a partition, beside what is true.
type desk struct {
	ledger Tracker
	read   int     // records of the log
	open   []int64 // admitted
	did    []int64 // completed here
}

// Whatever two commands settle, and whenever each of them learns what Kafka has
// and writes its own: all that was settled and saved is settled, and nothing
// else but gaps.
func TestMarksOfTwoCommandsAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		gaps := rapid.SliceOfN(rapid.SampledFrom([]int64{1, 1, 1, 1, 2, 7, Window - 1, Window, 2 * Window}), 1, 60).Draw(t, "gaps")
		var log []int64
		is := map[int64]bool{}
		at := int64(-1)
		for _, g := range gaps {
			at += g
			log, is[at] = append(log, at), true
		}
		base, text := int64(0), "" // what Kafka has
		settled := map[int64]bool{}
		desks := [2]desk{{ledger: NewTracker(0)}, {ledger: NewTracker(0)}}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			d := &desks[rapid.IntRange(0, 1).Draw(t, "who")]
			switch rapid.SampledFrom([]string{"read", "read", "settle", "save"}).Draw(t, "what") {
			case "read":
				if d.read < len(log) {
					switch d.ledger.Admit(log[d.read]) {
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
					d.ledger.Complete(o)
					d.did = append(d.did, o)
				}
			case "save":
				m, err := DecodeMetadata(text)
				if err != nil {
					t.Fatal(err)
				}
				d.ledger.Merge(base, &m.Bitmap)
				s := d.ledger.Snapshot()
				base, text = s.Low, s.Bitmap.Encode()
				for _, o := range d.did {
					settled[o] = true
				}
				d.did = nil
			}
		}
		m, err := DecodeMetadata(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range log {
			got := o < base || o-base < Window && m.Bitmap.Has(o-base)
			if got != settled[o] {
				t.Fatalf("letter %d of %v: got settled %v, want %v; kafka has %d %q", o, log, got, settled[o], base, text)
			}
		}
	})
}
