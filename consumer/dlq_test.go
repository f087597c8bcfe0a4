package consumer_test

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/dlq"
	"dispatcher/consumer/internal/offsets"
	"dispatcher/consumer/internal/topicname"
	"dispatcher/job"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go"
)

func (w *fleet) dlqClient() *dlq.Client {
	w.t.Helper()
	l, err := dlq.New(dlq.Options{
		Connection: consumer.Connection{Brokers: []string{broker}, Dial: w.net.DialContext}, Group: "g",
	})
	w.ok(err)
	return l
}

// allLetters picks all dead letters of the topic jobs.
var allLetters = dlq.Filter{Topics: []string{"jobs"}}

// list returns the values of the open letters.
func (w *fleet) openLetters(f dlq.Filter) (values []string, tally dlq.Tally) {
	w.t.Helper()
	tally, err := w.dlqClient().List(w.t.Context(), f, func(l *deadletter.Letter) error {
		values = append(values, string(l.Record.Value))
		return nil
	})
	w.ok(err)
	return values, tally
}

// deadRecord is a dead letter as a node writes it.
func deadRecord(value string, offset int, headers ...job.Header) job.Record {
	set := []job.Header{
		{Key: "x-original-topic", Value: []byte("jobs")},
		{Key: "x-original-partition", Value: []byte("0")},
		{Key: "x-original-offset", Value: []byte(strconv.Itoa(offset))},
		{Key: "x-error-class", Value: []byte("exhausted")},
		{Key: "x-attempt", Value: []byte("3")},
	}
	return job.Record{Key: []byte("k" + value), Value: []byte(value), Headers: append(set, headers...)}
}

func deadRecords(n int) []job.Record {
	all := make([]job.Record, n)
	for i := range all {
		all[i] = deadRecord(strconv.Itoa(i), i)
	}
	return all
}

// A job that becomes a dead letter, is replayed and becomes a dead letter again is the same job,
// byte for byte, with its first origin. The letters count the replays.
func TestAReplayedJobIsTheSameJob(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		rec := job.Record{Key: []byte{0, 0xff}, Value: []byte{1, 2, 0xfe}, Headers: []job.Header{
			{Key: "a", Value: []byte{0xff}}, {Key: "X-Mine", Value: []byte("kept")}, {Key: "a", Value: nil},
		}}
		w.produce("jobs", rec)
		var got []job.Job
		n := w.start(w.options(), func(d *consumer.Delivery) {
			got = append(got, d.Job)
			d.Dead(deadletter.Failure{Class: deadletter.ClassPermanent, Code: "422", Message: "no such number", Calls: 1}, consumer.Outcome{})
		})
		for round := range 3 {
			w.waitFor("jobs", 0, int64(round+1))
			if values, tally := w.openLetters(allLetters); len(values) != 1 || tally.Classes[deadletter.ClassPermanent] != 1 {
				t.Fatalf("round %d: got %v listed with classes %v, want one of class permanent", round, values, tally.Classes)
			}
			letter, err := w.dlqClient().Get(w.t.Context(), deadletter.RecordID{Topic: "jobs.dlq", Offset: int64(round)})
			w.ok(err)
			if letter.JobID != "jobs/0/0" || letter.Origin.String() != "jobs/0/0" || letter.Redrives != round || letter.Code != "422" ||
				letter.Attempts != 1 || letter.Settled || letter.FailedAt.IsZero() || letter.FirstFailedAt.IsZero() {
				t.Errorf("round %d: got %+v, want the job jobs/0/0 with %d redrives, one attempt and code 422", round, letter, round)
			}
			tally, err := w.dlqClient().Replay(w.t.Context(), allLetters, dlq.ReplayOptions{})
			if err != nil || tally.Done != 1 || tally.Left() != 0 {
				t.Fatalf("round %d: got %+v and error %v, want 1 replayed and none left", round, tally, err)
			}
		}
		w.waitFor("jobs", 0, 4)
		w.ok(n.end())
		for i, j := range got {
			if !bytes.Equal(j.Key, rec.Key) || !bytes.Equal(j.Value, rec.Value) || j.ID != "jobs/0/0" {
				t.Errorf("round %d: got key %x, value %x, id %s, want %x, %x, jobs/0/0", i, j.Key, j.Value, j.ID, rec.Key, rec.Value)
			}
		}
		var names []string
		for _, h := range got[3].Headers {
			names = append(names, h.Key+"="+string(h.Value))
		}
		stamp := slices.IndexFunc(names, func(s string) bool { return strings.HasPrefix(s, "x-original-timestamp=") })
		want := []string{
			"a=\xff", "X-Mine=kept", "a=", "x-original-topic=jobs", "x-original-partition=0", "x-original-offset=0", names[stamp], "x-redrive=3",
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
	})
}

func TestFiltersPick(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		at := func(hour int) job.Header {
			return job.Header{Key: "x-failed-at", Value: fmt.Appendf(nil, "2026-01-02T%02d:00:00Z", hour)}
		}
		w.produce("jobs.dlq",
			deadRecord("0", 0, at(1)), deadRecord("1", 1, at(2)), deadRecord("2", 2, at(3), job.Header{Key: "X-Error-Class", Value: []byte("permanent")}),
			job.Record{Value: []byte("3"), Headers: []job.Header{at(4)}})
		hour := func(h int) time.Time { return time.Date(2026, 1, 2, h, 0, 0, 0, time.UTC) }
		for name, c := range map[string]struct {
			f    dlq.Filter
			want string
		}{
			"all":     {dlq.Filter{}, "0 1 2 3"},
			"class":   {dlq.Filter{Classes: []deadletter.Class{"exhausted"}}, "0 1"},
			"classes": {dlq.Filter{Classes: []deadletter.Class{"permanent", ""}}, "2 3"},
			"since":   {dlq.Filter{Since: hour(2)}, "1 2 3"},
			"until":   {dlq.Filter{Until: hour(3)}, "0 1"},
			"key":     {dlq.Filter{Key: []byte("k1")}, "1"},
			"no key":  {dlq.Filter{Key: []byte{}}, ""},
			"limit":   {dlq.Filter{Since: hour(2), Limit: 2}, "1 2"},
		} {
			c.f.Topics = []string{"jobs"}
			got, tally := w.openLetters(c.f)
			if text := strings.Join(got, " "); text != c.want || tally.Open != 4 || tally.Done != int64(len(got)) {
				t.Errorf("%s: got %q and %+v, want %q of 4 open", name, text, tally, c.want)
			}
		}
	}, "jobs", "jobs.dlq")
}

// Any letter can be settled, and only once. The others stay open.
func TestLettersAreSettledOnce(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs.dlq", deadRecords(10)...)
		id := func(offset int64) deadletter.RecordID { return deadletter.RecordID{Topic: "jobs.dlq", Offset: offset} }
		named := dlq.Filter{IDs: []deadletter.RecordID{id(7), id(2), id(2), id(12)}}
		tally, err := w.dlqClient().Drop(w.t.Context(), named, true)
		if err != nil || tally.Done != 2 || len(tally.Missing) != 1 {
			t.Errorf("dry run: got %+v and error %v, want 2 done and 1 missing", tally, err)
		}
		if offset, _ := w.committed("jobs.dlq", 0); offset != -1 {
			t.Errorf("dry run: got offset %d committed, want none", offset)
		}
		tally, err = w.dlqClient().Drop(w.t.Context(), named, false)
		if err != nil || tally.Done != 2 || tally.Matched != 2 || len(tally.Missing) != 1 || tally.Left() != 1 {
			t.Errorf("got %+v and error %v, want 2 dropped and 1 missing", tally, err)
		}
		if got, _ := w.openLetters(allLetters); strings.Join(got, "") != "01345689" {
			t.Errorf("got %v listed, want all but 2 and 7", got)
		}
		tally, err = w.dlqClient().Replay(w.t.Context(), named, dlq.ReplayOptions{})
		if err != nil || tally.Done != 0 || len(tally.Settled) != 2 || tally.Left() != 3 {
			t.Errorf("second time: got %+v and error %v, want none done, 2 settled and 1 missing", tally, err)
		}
		if letter, err := w.dlqClient().Get(w.t.Context(), id(7)); err != nil || !letter.Settled || string(letter.Record.Value) != "7" {
			t.Errorf("got %+v and error %v, want the settled letter 7", letter, err)
		}
		tally, err = w.dlqClient().Replay(w.t.Context(), dlq.Filter{Topics: []string{"jobs"}, Limit: 3}, dlq.ReplayOptions{})
		if err != nil || tally.Done != 3 {
			t.Errorf("limit 3: got %+v and error %v, want 3 replayed", tally, err)
		}
		tally, err = w.dlqClient().Drop(w.t.Context(), allLetters, false)
		if err != nil || tally.Done != 5 || tally.Open != 5 {
			t.Errorf("the rest: got %+v and error %v, want 5 dropped", tally, err)
		}
		if got, tally := w.openLetters(allLetters); len(got) != 0 || tally.Open != 0 {
			t.Errorf("got %v listed, want none", got)
		}
		offset, text := w.committed("jobs.dlq", 0)
		if m, err := offsets.DecodeMetadata(text); err != nil || offset != 10 || m.Topic == (topicname.ID{}) || m.Span() != 0 {
			t.Errorf("got offset %d and metadata %q, want 10 and the topic's id", offset, text)
		}
		if got := len(w.topicRecords("jobs")); got != 3 {
			t.Errorf("got %d jobs, want 3", got)
		}
	}, "jobs", "jobs.dlq")
}

// topicRecords reads a topic of one partition.
func (w *fleet) topicRecords(topic string) []kafka.Message { return w.recordsFrom(topic, 0) }

func (w *fleet) recordsFrom(topic string, next int64) []kafka.Message {
	w.t.Helper()
	var all []kafka.Message
	for {
		res, err := w.client.Fetch(w.t.Context(), &kafka.FetchRequest{Topic: topic, Offset: next, MinBytes: 0, MaxBytes: 64 << 20, MaxWait: 10 * time.Millisecond})
		w.ok(err)
		w.ok(res.Error)
		before := next
		for {
			rec, err := res.Records.ReadRecord()
			if err != nil {
				break
			}
			key, err := kafka.ReadAll(rec.Key)
			w.ok(err)
			value, err := kafka.ReadAll(rec.Value)
			w.ok(err)
			all = append(all, kafka.Message{Offset: rec.Offset, Key: key, Value: value, Headers: rec.Headers})
			next = rec.Offset + 1
		}
		if next == before {
			return all
		}
	}
}

// A letter beyond the bitmap's reach is not replayed, and the tally says so. It can be replayed
// when the open letter before it is settled.
func TestLettersOutOfReachAreLeft(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		const all, span = 9000, 8192
		letters := deadRecords(all)
		letters[0].Headers = append(letters[0].Headers, job.Header{Key: "x-error-class", Value: []byte("permanent")})
		w.produce("jobs.dlq", letters...)
		exhausted := dlq.Filter{Topics: []string{"jobs"}, Classes: []deadletter.Class{"exhausted"}}
		for _, dry := range []bool{true, false} {
			tally, err := w.dlqClient().Replay(w.t.Context(), exhausted, dlq.ReplayOptions{Dry: dry})
			if err != nil || tally.Done != span-1 || tally.Matched != all-1 || tally.OutOfReach != all-span || len(tally.Notes) != 1 {
				t.Fatalf("dry %v: got %+v and error %v, want %d done and %d out of reach", dry, tally, err, span-1, all-span)
			}
		}
		if got, _ := w.openLetters(allLetters); len(got) != all-span+1 {
			t.Errorf("got %d letters left, want %d", len(got), all-span+1)
		}
		tally, err := w.dlqClient().Drop(w.t.Context(), dlq.Filter{Topics: []string{"jobs"}, Classes: []deadletter.Class{"permanent"}}, false)
		if err != nil || tally.Done != 1 {
			t.Fatalf("got %+v and error %v, want 1 dropped", tally, err)
		}
		tally, err = w.dlqClient().Replay(w.t.Context(), exhausted, dlq.ReplayOptions{})
		if err != nil || tally.Done != all-span || tally.Left() != 0 {
			t.Fatalf("got %+v and error %v, want %d replayed and none left", tally, err, all-span)
		}
		if got := len(w.topicRecords("jobs")); got != all-1 {
			t.Errorf("got %d jobs, want %d", got, all-1)
		}
	}, "jobs", "jobs.dlq")
}

// A truncated letter is not replayed. One without an origin is. Letters whose topic does not
// exist are not replayed.
func TestIncompleteLettersAreNotReplayed(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		all := dlq.Filter{Topics: []string{"jobs", "gone"}}
		w.produce("jobs.dlq", deadRecord("0", 0, job.Header{Key: "x-truncated", Value: []byte("true")}), job.Record{Value: []byte("1")})
		w.produce("gone.dlq", deadRecord("2", 2), deadRecord("3", 3))
		tally, err := w.dlqClient().Replay(w.t.Context(), all, dlq.ReplayOptions{})
		if err != nil || tally.Done != 1 || tally.Truncated != 1 || tally.NoTopic != 2 || len(tally.Notes) != 2 {
			t.Errorf("got %+v and error %v, want 1 done, 1 truncated, 2 without a topic and 2 notes", tally, err)
		}
		tally, err = w.dlqClient().Replay(w.t.Context(), all, dlq.ReplayOptions{To: "jobs"})
		if err != nil || tally.Done != 2 || tally.Truncated != 1 {
			t.Errorf("with a topic: got %+v and error %v, want 2 done and 1 truncated", tally, err)
		}
		if got, _ := w.openLetters(all); strings.Join(got, "") != "0" {
			t.Errorf("got %v listed, want the truncated letter 0", got)
		}
	}, "jobs", "jobs.dlq", "gone.dlq")
}

func TestInvalidIDsAndTopicsAreRefused(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs.dlq", deadRecords(3)...)
		w.ok(w.cluster.DeleteRecords("jobs.dlq", 0, 1))
		for text, want := range map[string]string{
			"jobs.dlq/0/0": "gone: the log begins at offset 1",
			"jobs.dlq/0/3": "does not exist: the log ends before offset 3",
			"jobs.dlq/1/0": "partition: 1: topic jobs.dlq has 1 of them",
			"jobs/0/0":     "is not on a dead-letter topic",
			"none.dlq/0/0": "topic none.dlq does not exist",
		} {
			id, err := deadletter.ParseRecordID(text)
			w.ok(err)
			if _, err := w.dlqClient().Get(w.t.Context(), id); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got error %v, want %q", text, err, want)
			}
		}
		for _, text := range []string{"", "jobs.dlq", "jobs.dlq/0", "jobs.dlq/x/1", "jobs.dlq/0/-1", "a b/0/1", "/0/1", "jobs.dlq/0/1/2", "jobs.dlq/+1/1", "../0/1"} {
			if id, err := deadletter.ParseRecordID(text); err == nil {
				t.Errorf("%q: got %v, want an error", text, id)
			}
		}
		if _, err := w.dlqClient().Replay(w.t.Context(), allLetters, dlq.ReplayOptions{To: "a b"}); err == nil {
			t.Error("got no error for the topic name \"a b\", want one")
		}
	}, "jobs", "jobs.dlq")
}
