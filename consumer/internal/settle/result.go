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

// Where results are written, a job is settled only when Kafka has its result. A job whose
// result is not written before a crash is handed out again. So no result is lost, and some
// are written twice.
//
// No worker waits for that. Kafka's client writes results in batches; a job that waits for
// its result counts as in flight. While a results topic can't be written its jobs stay open,
// and once all jobs in flight wait for results, none is handed out.

// maxResultKey is the longest key in bytes that a result takes over from its job. The result
// of a job with a longer key has the job's id as its key, or it would be as large as a job.
const maxResultKey = 16 << 10

// results is the state of a settler that writes results.
type results struct {
	metrics *resultMetrics
	waiting atomic.Int64
}

func newResults() *results { return &results{metrics: newResultMetrics()} }

// putResult gives a job's result to the writer. class is that of its dead letter; empty:
// there is none. done is called once, and must not block.
func (s *Settler) putResult(ctx context.Context, d *schedule.Delivery, o schedule.Outcome, class deadletter.Class, done func(written bool)) {
	result := resultName(o.Result, class)
	s.putResultRecord(d, result, &produce.Request{Record: s.resultRecord(d, o, result), Context: ctx}, done)
}

// putResultRecord puts a record that is too large once more, with the job's id as its key:
// only the key can be large.
func (s *Settler) putResultRecord(d *schedule.Delivery, result string, req *produce.Request, done func(written bool)) {
	r := s.results
	r.waiting.Add(1)
	req.Done = func(err error) {
		r.waiting.Add(-1)
		switch {
		case broker.TooLarge(err):
			req.Record.Key = []byte(d.Job.ID)
			s.putResultRecord(d, result, &produce.Request{Record: req.Record, Context: req.Context, Smallest: true}, done)
			return
		case err == nil:
			r.metrics.written.WithLabelValues(result).Inc()
		}
		s.resultWorks(health.Source{Doing: health.Results, Topic: schedule.SourceOf(d).JobTopic, Partition: int(req.Partition.Load())})
		done(err == nil)
	}
	s.putRecord(d, req)
}

// resultName is the result that a record names: the worker's, or that of the dead letter's
// class, or accepted.
func resultName(byWorker string, class deadletter.Class) string {
	switch {
	case byWorker != "":
		return byWorker
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
		Result: result, Attempts: o.Attempts, Status: o.Status,
		MessageID: clip.Text(o.MessageID, deadletter.MaxCodeBytes), Error: clip.Text(o.Error, deadletter.MaxMessageBytes),
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

// resultHeaders name the format of the value, and the job's trace.
func resultHeaders(j *job.Job) []kgo.RecordHeader {
	h := []kgo.RecordHeader{{Key: job.HeaderContentType, Value: []byte("application/json")}}
	if j.Traceparent != "" {
		h = append(h, kgo.RecordHeader{Key: job.HeaderTraceparent, Value: []byte(j.Traceparent)})
	}
	return h
}
