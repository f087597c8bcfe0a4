package consumer_test

import (
	"strings"
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/dlq"
	"dispatcher/job"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// deadFrom is a dead letter on jobs.dlq whose headers name another origin.
func deadFrom(topic, partition string, headers ...job.Header) job.Record {
	rec := deadRecord("0", 0, headers...)
	rec.Headers[0].Value, rec.Headers[1].Value = []byte(topic), []byte(partition)
	return rec
}

// A replay writes to the job topic of the dead-letter topic, also if the job came through a
// retry topic and its producer wrote the headers of an origin. The letter shows that origin.
func TestAReplayGoesToTheJobTopicWhateverTheOriginSays(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", deadFrom("other", "0"))
		n := w.start(withRetryTopics(w.options(), consumer.OrderNone, 5*time.Second), func(d *consumer.Delivery) {
			failure := deadletter.Failure{Class: deadletter.ClassUnavailable, Calls: 1, Failures: 1}
			if d.Attempts().Failures > 0 || !d.RetryLater(time.Now().Add(6*time.Second), failure) {
				d.Dead(failure, consumer.Outcome{})
			}
		})
		w.waitFor("jobs.retry.5s", 0, 1)
		w.ok(n.end())
		letter, err := w.dlqClient().Get(w.t.Context(), deadletter.RecordID{Topic: "jobs.dlq"})
		if err != nil || letter.Origin.String() != "other/0/0" {
			t.Fatalf("got %+v and error %v, want a letter with the origin other/0/0", letter, err)
		}
		tally, err := w.dlqClient().Replay(w.t.Context(), allLetters, dlq.ReplayOptions{})
		if err != nil || tally.Done != 1 || tally.Left() != 0 {
			t.Errorf("got %+v and error %v, want 1 replayed", tally, err)
		}
		if jobs, other := len(w.topicRecords("jobs")), len(w.topicRecords("other")); jobs != 2 || other != 0 {
			t.Errorf("got %d jobs and %d records of the other topic, want 2 and none", jobs, other)
		}
	}, "jobs", "other")
}

// A truncated letter whose origin can't be read is left and named. The others are replayed, and
// do not wait.
func TestAnOriginThatCantBeReadLeavesItsLetterAlone(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		part := job.Header{Key: "x-truncated", Value: []byte("true")}
		w.produce("closed", job.Record{Value: []byte("x")})
		w.produce("jobs.dlq", append([]job.Record{
			deadFrom("jobs", "99", part), deadFrom("secret", "0", part), deadFrom("secret", "0", part), deadFrom("closed", "0", part), deadFrom("..", "0", part),
		}, deadRecords(3)...)...)
		w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "secret", Err: kerr.TopicAuthorizationFailed, Count: -1})
		w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "closed", Err: kerr.TopicAuthorizationFailed, Count: -1})
		began := time.Now()
		tally, err := w.dlqClient().Replay(w.t.Context(), allLetters, dlq.ReplayOptions{Whole: true})
		if err != nil || tally.Done != 3 || tally.Truncated != 5 || len(w.topicRecords("jobs")) != 3 {
			t.Errorf("got %+v and error %v, want 3 replayed and 5 truncated", tally, err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("the replay took %v, want no wait for an origin", took)
		}
		notes := strings.Join(tally.Notes, "\n")
		for _, want := range []string{
			"jobs.dlq/0/0 was truncated because of its size, and holds only a part of the record jobs/99/0",
			"jobs.dlq/0/1 can't be completed: request topic secret: [29] Topic Authorization Failed",
			"jobs.dlq/0/2 can't be completed: request topic secret: [29] Topic Authorization Failed",
			"jobs.dlq/0/3 can't be completed: read closed/0 from offset 0: fetch: [29] Topic Authorization Failed",
			"jobs.dlq/0/4 was truncated because of its size, and holds only a part of a record that it does not name",
		} {
			if !strings.Contains(notes, want) {
				t.Errorf("got the notes\n%s\nwant %q", notes, want)
			}
		}
	}, "jobs", "jobs.dlq", "closed")
}
