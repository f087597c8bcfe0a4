package schedule

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/steps"
)

// writes has the records of jobs written later, by the test.
type writes struct{ Settler }

func (writes) Done(d *Delivery, _ Outcome)                 { BeginRecord(d) }
func (writes) Dead(*Delivery, deadletter.Failure, Outcome) {}

// The next job of a key goes only when Kafka has the record of the one before it: a result, a
// dead letter, or the record of a job that no worker settles. If the record is given up, no
// later job of the key goes.
func TestAKeyIsHeldUntilTheRecordIsInKafka(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(w *bench, d *Delivery){
		"result":      func(_ *bench, d *Delivery) { d.Done(Outcome{}) },
		"dead letter": func(_ *bench, d *Delivery) { d.Dead(deadletter.Failure{}, Outcome{}) },
		"dedup store": func(_ *bench, d *Delivery) { d.Answered() },
		"timed out":   func(w *bench, d *Delivery) { w.mu.Lock(); defer w.mu.Unlock(); w.timeOut(d, time.Now()) },
		"expires": func(w *bench, d *Delivery) {
			d.Requeue() // it is ready
			d.Job.NotAfter = time.Now().Add(-time.Second)
			w.Take()
		},
	} {
		for _, written := range []bool{true, false} {
			l := &Lane{name: "default", mostJobs: 4}
			w := newBench(l)
			w.opts.Settler = writes{}
			var log bytes.Buffer
			w.log = steps.Log{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
			p := partition(w.NewAssignment(), l, 0)
			addJobs(p, 1, 1)
			d := w.Take()
			begin(w, d)
			if next := w.Take(); next != nil {
				t.Errorf("%s: got offset %d before the record is written, want none", name, next.Job.Offset)
			}
			if strings.Contains(log.String(), "step=settled") {
				t.Errorf("%s: got this log before the record is written, want no settled job:\n%s", name, log.String())
			}
			EndRecord(d, written)
			if got := strings.Contains(log.String(), "step=settled"); got != written {
				t.Errorf("%s: got settled in the log %v, want %v", name, got, written)
			}
			if next := w.Take(); (next != nil) != written {
				t.Errorf("%s: got job %v after a record that is written: %v, want one only then", name, next, written)
			}
		}
	}
}
