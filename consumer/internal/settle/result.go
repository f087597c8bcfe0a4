package settle

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/health"
	"dispatcher/consumer/internal/produce"
	"dispatcher/consumer/internal/schedule"
	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/clip"
	"dispatcher/job"
)

// A job with results is settled only when Kafka has its result. A crash leaves a job whose
// result is not written to be worked again, so no result is lost and some may come twice.
//
// No worker waits for that. Kafka's client gathers results and writes them in batches; at
// most as many wait as jobs are in flight. While a results topic can't be written its jobs
// stay open, and once all jobs in flight are such, none is handed out.

// maxResultKey is the longest key of a job that its result has as well, in bytes. A longer
// one gives way to the id: it would make results as large as jobs.
const maxResultKey = 16 << 10

// results is the state that is there only where results are written.
type results struct {
	metrics *resultMetrics
	waiting atomic.Int64
}

func newResults() *results { return &results{metrics: newResultMetrics()} }

// putResult hands a job's result to the writer. class is that of its dead letter; empty:
// there is none. done is called once, and must not block.
func (s *Settler) putResult(ctx context.Context, d *schedule.Delivery, o schedule.Outcome, class deadletter.Class, done func(written bool)) {
	result := resultName(o.Result, class)
	s.putResultRecord(ctx, d, result, s.resultRecord(d, o, result), done)
}

// putResultRecord puts a record that is too large once more, under the job's id: only the
// key can be large.
func (s *Settler) putResultRecord(ctx context.Context, d *schedule.Delivery, result string, record *kgo.Record, done func(written bool)) {
	r := s.results
	r.waiting.Add(1)
	req := &produce.Request{Record: record, Context: ctx}
	req.Done = func(err error) {
		r.waiting.Add(-1)
		switch {
		case broker.TooLarge(err) && len(record.Key) > len(d.Job.ID):
			record.Key = []byte(d.Job.ID)
			s.putResultRecord(ctx, d, result, record, done)
			return
		case err == nil:
			r.metrics.written.WithLabelValues(result).Inc()
		}
		s.o.Health.Works(health.Source{Doing: health.Results, Topic: schedule.SourceOf(d).JobTopic, Partition: int(req.Partition.Load())})
		done(err == nil)
	}
	s.putRecord(d, req)
}

// resultName is the result that a record names. A worker may have said it; else it is
// accepted, or follows from the class of the dead letter.
func resultName(said string, class deadletter.Class) string {
	switch {
	case said != "":
		return said
	case class == "":
		return job.ResultAccepted
	case class == deadletter.ClassPermanent:
		return job.ResultRejected
	}
	return string(class)
}

// resultRecord makes the record of a job's result.
func (s *Settler) resultRecord(d *schedule.Delivery, o schedule.Outcome, result string) *kgo.Record {
	j := &d.Job
	first := deadletter.FirstID(&j.Record)
	v := job.Result{
		ID: j.ID, Topic: first.Topic, Partition: first.Partition, Offset: first.Offset,
		Result: result, Attempts: o.Attempts, Status: o.Status, MessageID: clip.Text(o.MessageID, deadletter.MaxCodeBytes), Error: clip.Text(o.Error, deadletter.MaxMessageBytes),
		EnqueuedAt: d.FirstWritten().UTC(), SentAt: o.SentAt.UTC(), SettledAt: time.Now().UTC(), Node: clip.Text(s.o.Node, deadletter.MaxCodeBytes),
	}
	rec := &kgo.Record{
		Topic: topicname.Results(schedule.SourceOf(d).JobTopic), Key: j.Key, Value: encodeResult(&v), Timestamp: v.SettledAt, Headers: resultHeaders(j),
	}
	if len(j.Key) == 0 || len(j.Key) > maxResultKey {
		rec.Key = []byte(j.ID)
	}
	return rec
}

// encodeResult can't fail but for a time that no JSON holds: a producer may give a record
// any timestamp.
func encodeResult(v *job.Result) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		v.EnqueuedAt = time.Time{}
		text, _ = json.Marshal(v)
	}
	return text
}

// resultHeaders name the format of the value, and keep the trace together.
func resultHeaders(j *job.Job) []kgo.RecordHeader {
	h := []kgo.RecordHeader{{Key: job.HeaderContentType, Value: []byte("application/json")}}
	if j.Traceparent != "" {
		h = append(h, kgo.RecordHeader{Key: job.HeaderTraceparent, Value: []byte(j.Traceparent)})
	}
	return h
}
