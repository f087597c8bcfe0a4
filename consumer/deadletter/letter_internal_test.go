package deadletter

import (
	"strings"
	"testing"
	"time"

	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/offsets"

	"dispatcher/job"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go"
	"pgregory.net/rapid"
)

// desk is what one command knows of a partition, beside what is true.
type desk struct {
	ledger offsets.Tracker
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
		gaps := rapid.SliceOfN(rapid.SampledFrom([]int64{1, 1, 1, 1, 2, 7, offsets.Window - 1, offsets.Window, 2 * offsets.Window}), 1, 60).Draw(t, "gaps")
		var log []int64
		is := map[int64]bool{}
		at := int64(-1)
		for _, g := range gaps {
			at += g
			log, is[at] = append(log, at), true
		}
		base, text := int64(0), "" // what Kafka has
		settled := map[int64]bool{}
		desks := [2]desk{{ledger: offsets.NewTracker(0)}, {ledger: offsets.NewTracker(0)}}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			d := &desks[rapid.IntRange(0, 1).Draw(t, "who")]
			switch rapid.SampledFrom([]string{"read", "read", "settle", "save"}).Draw(t, "what") {
			case "read":
				if d.read < len(log) {
					switch d.ledger.Admit(log[d.read]) {
					case offsets.Admitted:
						d.open = append(d.open, log[d.read])
						d.read++
					case offsets.AlreadyComplete:
						d.read++
					case offsets.BeyondWindow:
					}
				}
			case "settle":
				if len(d.open) > 0 {
					o := rapid.SampledFrom(d.open).Draw(t, "letter")
					d.ledger.Complete(o)
					d.did = append(d.did, o)
				}
			case "save":
				m, err := offsets.DecodeMetadata(text)
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
		m, err := offsets.DecodeMetadata(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range log {
			got := o < base || o-base < offsets.Window && m.Bitmap.Has(o-base)
			if got != settled[o] {
				t.Fatalf("letter %d of %v: got settled %v, want %v; kafka has %d %q", o, log, got, settled[o], base, text)
			}
		}
	})
}

// Of all members one has everything: who had it before, else who came first.
func TestOneMemberHoldsAll(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 5).Draw(t, "members")
		members := make([]kafka.GroupMember, n)
		for i := range members {
			members[i] = kafka.GroupMember{
				ID:       string(rune('a' + i)),
				UserData: rapid.SliceOfN(rapid.ByteRange(0, 1), 0, 3).Draw(t, "right"),
			}
		}
		partitions := []kafka.Partition{{Topic: "a.dlq", ID: 0}, {Topic: "a.dlq", ID: 1}}
		got := (&exclusiveBalancer{}).AssignGroups(members, partitions)
		holders := 0
		for _, m := range members {
			parts, told := got[m.ID]
			if !told {
				t.Fatalf("member %s is not told", m.ID)
			}
			if len(parts["a.dlq"]) == 0 {
				continue
			}
			holders++
			for _, other := range members {
				if len(parts["a.dlq"]) != len(partitions) || strings.Compare(string(other.UserData), string(m.UserData)) < 0 {
					t.Fatalf("got %v for %v", got, members)
				}
			}
		}
		if n > 0 && holders != 1 {
			t.Fatalf("got %d holders", holders)
		}
	})
}

// What a replay takes off is what a burial has put on, and the count goes up.
func TestAReplayUndoesABurial(t *testing.T) {
	t.Parallel()
	header := rapid.Custom(func(t *rapid.T) job.Header {
		name := rapid.SampledFrom([]string{"a", "content-type", "X-Mine", "x-redrive", "idempotency-key", ""}).Draw(t, "name")
		return job.Header{Key: name, Value: rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "value")}
	})
	rapid.Check(t, func(t *rapid.T) {
		rec := job.Record{
			Topic: "jobs", Partition: 3, Offset: 7,
			Key:     rapid.SliceOf(rapid.Byte()).Draw(t, "key"),
			Value:   rapid.SliceOf(rapid.Byte()).Draw(t, "value"),
			Headers: rapid.SliceOfN(header, 0, 6).Draw(t, "headers"),
		}
		letter := readLetter(rec)
		before := letter.Redrives
		for range rapid.IntRange(1, 3).Draw(t, "times") {
			buried := rec
			for _, name := range []string{
				headerGroup, HeaderAttempt, "X-First-Failed-At", headerFailedAt, headerErrorClass, headerErrorCode,
				headerErrorMessage, headerNode, "x-error-other", HeaderNotBefore, HeaderFailures,
			} {
				buried.Headers = append(buried.Headers, job.Header{Key: name, Value: []byte("x")})
			}
			letter = readLetter(buried)
			m := jobOf(&letter)
			rec.Headers = nil
			for _, h := range m.Headers {
				rec.Headers = append(rec.Headers, job.Header{Key: h.Key, Value: h.Value})
			}
			if string(m.Key) != string(rec.Key) || string(m.Value) != string(rec.Value) {
				t.Fatal("key or value changed")
			}
			again := readLetter(rec)
			if before++; again.Redrives != before {
				t.Fatalf("got %d redrives, want %d", again.Redrives, before)
			}
			if diff := cmp.Diff(foreign(buried.Headers), foreign(rec.Headers)); diff != "" {
				t.Fatalf("headers (-want +got):\n%s", diff)
			}
		}
	})
}

func foreign(headers []job.Header) (kept []string) {
	for _, h := range headers {
		if !aboutTheFailure(h.Key) {
			kept = append(kept, h.Key+"="+string(h.Value))
		}
	}
	return kept
}

func TestTimesOfRetention(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		unit time.Duration
		want string
	}{
		{"10080", time.Minute, "7 days"},
		{"-1", time.Millisecond, "ever"},
		{"9223372036854775807", time.Millisecond, "ever"},
		{"60000", time.Millisecond, "1m"},
		{"90000", time.Millisecond, "1m30s"},
		{"2160", time.Minute, "36h"},
		{"x", time.Minute, ""},
	} {
		got := broker.ParseDuration(c.text, c.unit)
		if text := span(got); got != 0 && text != c.want || got == 0 && c.want != "" {
			t.Errorf("%s: got %q, want %q", c.text, text, c.want)
		}
	}
}

func FuzzParseRecordID(f *testing.F) {
	for _, s := range []string{"jobs.dlq/3/1042", "", "a/0/0", "a/-1/0", "a/1/9223372036854775808", "a//", "a/01/1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseRecordID(text)
		if err != nil {
			return
		}
		back, err := ParseRecordID(id.String())
		if err != nil || back != id || id.Partition < 0 || id.Offset < 0 {
			t.Fatalf("%q reads as %v, and that as %v: %v", text, id, back, err)
		}
	})
}

func FuzzNewLetter(f *testing.F) {
	f.Add("x-error-class", []byte("exhausted"), []byte(`{"id":"a"}`))
	f.Add("X-Attempt", []byte("99999999999999999999"), []byte("v"))
	f.Add("x-failed-at", []byte("2026-01-02T03:04:05Z"), []byte{0xff})
	f.Add("x-redrive", []byte("2147483647"), []byte(nil))
	f.Add("x-original-offset", []byte("-1"), []byte{})
	f.Fuzz(func(t *testing.T, name string, header, value []byte) {
		rec := job.Record{Topic: "jobs.dlq", Offset: 5, Value: value, Headers: []job.Header{{Key: name, Value: header}, {Key: name, Value: header}}}
		l := readLetter(rec)
		if l.Attempts < 0 || l.Redrives < 0 || l.OriginalSize < 0 || len(l.Message) > MaxMessageBytes || l.jobID() == "" {
			t.Fatalf("got %+v", l)
		}
		m := jobOf(&l)
		if string(m.Value) != string(value) || readLetter(job.Record{Headers: []job.Header{{Key: headerRedrive, Value: m.Headers[len(m.Headers)-1].Value}}}).Redrives < 1 {
			t.Fatalf("got %+v", m)
		}
	})
}
