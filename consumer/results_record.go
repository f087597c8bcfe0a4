package consumer

import (
	"encoding/json"
	"fmt"
	"time"

	"dispatcher/consumer/deadletter"

	"dispatcher/consumer/internal/produce"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/clip"
	"dispatcher/job"
)

// maxResultKey is the longest key of a job that its result has as well, in
// bytes. A longer one gives way to the id: it would make results as large as
// jobs.
const maxResultKey = 16 << 10

// resultRecord is the record of a result, and what the result is.
type resultRecord struct {
	kgo.Record

	result string
}

// resultOf is what a dead letter of a class means for its job.
func resultOf(c deadletter.Class) string {
	if c == deadletter.ClassPermanent {
		return job.ResultRejected
	}
	return string(c)
}

// record makes the record of a job's result. class is that of its dead letter;
// empty: there is none.
func (r *Results) record(d *Delivery, o Outcome, class deadletter.Class) *resultRecord {
	result := o.Result
	switch {
	case result != "":
	case class == "":
		result = job.ResultAccepted
	default:
		result = resultOf(class)
	}
	j := &d.Job
	first := deadletter.FirstPlace(&j.Record)
	v := job.Result{
		ID: j.ID, Topic: first.Topic, Partition: first.Partition, Offset: first.Offset,
		Result: result, Attempts: o.Attempts, Status: o.Status, MessageID: clip.Text(o.MessageID, deadletter.MaxCodeBytes), Error: clip.Text(o.Error, deadletter.MaxMessageBytes),
		EnqueuedAt: d.FirstWritten().UTC(), SentAt: o.SentAt.UTC(), SettledAt: time.Now().UTC(), Node: clip.Text(r.node, deadletter.MaxCodeBytes),
	}
	rec := &resultRecord{result: result, Record: kgo.Record{
		Topic: topicname.Results(d.part.of), Key: j.Key, Value: encodeResult(&v), Timestamp: v.SettledAt, Headers: resultHeaders(j),
	}}
	if len(j.Key) == 0 || len(j.Key) > maxResultKey {
		rec.Key = []byte(j.ID)
	}
	return rec
}

// encodeResult can't fail but for a time that no JSON holds: a producer may give
// a record any timestamp.
func encodeResult(v *job.Result) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		v.EnqueuedAt = time.Time{}
		text, _ = json.Marshal(v)
	}
	return text
}

// resultHeaders say what the value is, and keep the trace together.
func resultHeaders(j *job.Job) []kgo.RecordHeader {
	h := []kgo.RecordHeader{{Key: job.HeaderContentType, Value: []byte("application/json")}}
	if j.Traceparent != "" {
		h = append(h, kgo.RecordHeader{Key: job.HeaderTraceparent, Value: []byte(j.Traceparent)})
	}
	return h
}

// makeResults makes what writes results; nil: none are to be written.
func makeResults(o *Options, w *produce.Writer) (*Results, error) {
	if !o.Results {
		return nil, nil
	}
	r := &Results{writer: w, metrics: newResultMetrics(), node: o.Node}
	if o.Registerer == nil {
		return r, nil
	}
	for _, c := range r.collectors() {
		if err := o.Registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return r, nil
}

// Results settles jobs and says what became of them; nil where that is not
// wanted, which settles them all the same.
func (c *Consumer) Results() *Results { return c.results }

// resultMetrics are there only where results are written.
type resultMetrics struct {
	written *prometheus.CounterVec // by result
	errors  prometheus.Counter
}

func newResultMetrics() *resultMetrics {
	m := &resultMetrics{
		written: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "results_total", Help: "Results written, by what became of the job.",
		}, []string{"result"}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "result_errors_total", Help: "Results found refused or not acknowledged for half a second, each half second; they are tried again.",
		}),
	}
	for _, result := range []string{
		job.ResultAccepted, job.ResultRejected, job.ResultExpired, job.ResultExhausted, job.ResultUnknown,
	} {
		m.written.WithLabelValues(result)
	}
	return m
}

// collectors are what [Consumer] registers.
func (r *Results) collectors() []prometheus.Collector {
	return []prometheus.Collector{r.metrics.written, r.metrics.errors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "results_waiting", Help: "Results that are not known to be written, and whose jobs are open.",
	}, func() float64 { return float64(r.waiting.Load()) })}
}
