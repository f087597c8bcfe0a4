package consumer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"

	"dispatcher/job"
)

// maxResultKey is the longest key of a job that its result has as well, in
// bytes. A longer one gives way to the id: it would make results as large as
// jobs.
const maxResultKey = 16 << 10

func resultsTopic(topic string) string { return topic + ".results" }

// resultOf is what a dead letter of a class means for its job.
func resultOf(c Class) string {
	if c == ClassPermanent {
		return job.ResultRejected
	}
	return string(c)
}

// entry makes the record of a job's result. class is that of its dead letter;
// empty: there is none.
func (r *Results) entry(d *Delivery, o Outcome, class Class) *entry {
	result := o.Result
	switch {
	case result != "":
	case class == "":
		result = job.ResultAccepted
	default:
		result = resultOf(class)
	}
	j := &d.Job
	v := job.Result{
		ID: j.ID, Topic: j.Topic, Partition: j.Partition, Offset: j.Offset,
		Result: result, Attempts: o.Attempts, Status: o.Status, MessageID: clip(o.MessageID, maxCodeBytes), Error: clip(o.Error, maxMessageBytes),
		EnqueuedAt: d.FirstWritten().UTC(), SentAt: o.SentAt.UTC(), SettledAt: time.Now().UTC(), Node: clip(r.node, maxCodeBytes),
	}
	setOrigin(&v, &j.Record)
	e := &entry{d: d, result: result, topic: resultsTopic(d.part.of), key: j.Key, value: encodeResult(&v), at: v.SettledAt}
	if len(j.Key) == 0 || len(j.Key) > maxResultKey {
		e.key = []byte(j.ID)
	}
	return e
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

// setOrigin names the place that the job had first.
func setOrigin(v *job.Result, rec *job.Record) {
	if !hasOrigin(rec) {
		return
	}
	v.Topic = string(recordHeader(rec, job.HeaderOriginalTopic))
	v.Partition, _ = strconv.Atoi(string(recordHeader(rec, job.HeaderOriginalPartition)))
	v.Offset, _ = strconv.ParseInt(string(recordHeader(rec, job.HeaderOriginalOffset)), 10, 64)
}

// learnResults tells the writer of results which partitions it has. A companion
// that was not there has been made with those of its topic.
func (c *Consumer) learnResults(topics []string, layout map[string]kafka.Topic) {
	if c.results == nil {
		return
	}
	for _, t := range topics {
		name := resultsTopic(t)
		there, ok := layout[name]
		if !ok {
			there = kafka.Topic{Name: name, Partitions: layout[t].Partitions}
		}
		c.results.know(there)
	}
	// What the client knows may be older than the topics, also where another node
	// has made them. By itself it would look again after metadataTTL, and all jobs
	// in hand would wait for that.
	c.client.transport.CloseIdleConnections()
}

// makeResults makes the writer of results; nil: none are to be written.
func makeResults(o *Options, cl *client, s *state) (*Results, error) {
	if !o.Results {
		return nil, nil
	}
	r := newResults(o, cl, s)
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
			Namespace: namespace, Name: "result_errors_total", Help: "Batches of results that were not written and are tried again.",
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
	}, func() float64 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return float64(r.waiting)
	})}
}
