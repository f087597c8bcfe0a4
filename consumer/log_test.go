package consumer_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/consumer/deadletter"
	"dispatcher/job"
)

// linesWith are those of a log that hold a text.
func linesWith(log, text string) (found []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, text) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// Dead letters are logged by class: the first at once with one id, then sums. The provider's
// answer is in the dead letter and never in the log.
func TestDeadLettersAreLogged(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		const jobs = 27
		var records []job.Record
		for i := range jobs {
			records = append(records, job.Record{Value: fmt.Appendf(nil, `{"id":"job-%d"}`, i)})
		}
		w.produce("jobs", records...)
		var log bytes.Buffer
		o := w.options()
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		n := w.start(o, func(d *consumer.Delivery) {
			time.Sleep(time.Second)
			d.Dead(deadletter.Failure{Class: deadletter.ClassPermanent, Code: "400", Message: "the provider answered 400 bad request", Answer: strings.Repeat("é", 400)}, consumer.Outcome{})
		})
		w.until("all are settled", func() bool { offset, _ := w.committed("jobs", 0); return offset == jobs })
		time.Sleep(2 * time.Minute)
		w.ok(n.end())
		lines := linesWith(log.String(), "jobs were dead-lettered")
		if len(lines) != 3 {
			t.Fatalf("got %d lines of 27 dead letters in 27 s, want one at once, one after 5 s and one with the rest:\n%s", len(lines), strings.Join(lines, "\n"))
		}
		for _, want := range []string{"level=WARN", "class=permanent", "jobs=1 ", "topic=jobs.dlq", "last_id=job-0", "code=400", "400 bad request"} {
			if !strings.Contains(lines[0], want) {
				t.Errorf("the first line lacks %q: %s", want, lines[0])
			}
		}
		sum := 0
		for _, line := range lines {
			_, after, _ := strings.Cut(line, "jobs=")
			var n int
			if _, err := fmt.Sscan(after, &n); err != nil {
				t.Errorf("got line %s, want a count in it", line)
			}
			sum += n
		}
		if sum != jobs {
			t.Errorf("got a sum of %d dead letters in the log, want %d", sum, jobs)
		}
		if strings.Contains(log.String(), "éé") {
			t.Error("got the provider's answer in the log, want it in the dead letter alone")
		}
		if got := headerMap(w.letters("jobs")[0])["x-error-answer"]; got != strings.Repeat("é", 256) {
			t.Errorf("got %d bytes of the answer, want its first 512: %q", len(got), got)
		}
	})
}

// With log.level debug, each step of a job is a line with the job's id and place, and without
// its payload.
func TestStepsOfAJob(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", job.Record{Key: []byte("a key"), Value: []byte(`{"id":"one","text":"s3cret"}`)})
		var log bytes.Buffer
		o := w.options()
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		n := w.start(o, func(d *consumer.Delivery) {
			if d.Memo() == nil {
				d.Sleep(consumer.SleepOptions{Until: time.Now().Add(time.Second), Memo: 1})
				return
			}
			d.Done(consumer.Outcome{})
		})
		w.until("it is settled", func() bool { offset, _ := w.committed("jobs", 0); return offset == 1 })
		w.ok(n.end())
		for _, step := range []string{"step=fetched", `step="waits for its next call"`, "step=settled"} {
			lines := linesWith(log.String(), step)
			if len(lines) != 1 || !strings.Contains(lines[0], "id=one topic=jobs partition=0 offset=0") {
				t.Errorf("got these lines of %q, want one with the job's id and place:\n%s", step, strings.Join(lines, "\n"))
			}
		}
		if strings.Contains(log.String(), "s3cret") || strings.Contains(log.String(), "a key") {
			t.Error("got the payload or the key in the log, want neither")
		}
	})
}
