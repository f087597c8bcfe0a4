package settle

import (
	"time"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/health"
	"dispatcher/consumer/internal/produce"
	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/clip"
	"dispatcher/internal/tally"
)

// writeFailed notes that Kafka refused a record, or has not acknowledged it in time. Results
// that can't be written make the node unready after a while; other records don't. Before kgo
// has chosen the record's partition, the fault is one of the whole topic.
func (s *Settler) writeFailed(r *produce.Request, err error) {
	topic, partition := r.Record.Topic, int(r.Partition.Load())
	attrs := []any{"topic", topic, "error", err}
	if partition != health.NoPartition {
		attrs = append(attrs, "partition", partition)
	}
	if of, ok := topicname.ResultsOf(topic); ok && s.results != nil {
		s.results.metrics.errors.Inc()
		if s.o.Health.Fails(health.Source{Doing: health.Results, Topic: of, Partition: partition}, err, produce.LateAfter) {
			s.o.Log.Error("results could not be written, their jobs stay open, trying again", attrs...)
		}
		return
	}
	s.metrics.errors.Inc()
	if s.transfers.Fails(health.Source{Doing: health.DeadLetters, Topic: topic, Partition: partition}, err, 0) {
		s.o.Log.Error("a dead letter or a job that is tried again later could not be written, the job stays open, trying again", attrs...)
	}
}

// resultWorks notes that a result was written, or given up. The fault of the whole topic ends
// with that of the partition.
func (s *Settler) resultWorks(from health.Source) {
	s.o.Health.Works(from)
	from.Partition = health.NoPartition
	s.o.Health.Works(from)
}

// logged is the part of a dead letter that the log shows.
type logged struct {
	class       deadletter.Class
	id, topic   string
	code, cause string
}

const (
	mostClasses = 16          // that the log sums up apart
	logEvery    = time.Second // how often sums that are due are logged
)

// log logs the first dead letter of a class at once, and then sums.
func (s *Settler) log(t *transfer) {
	if t.delayed() {
		return
	}
	j := &t.d.Job
	id := j.ID
	if id == "" {
		id = deadletter.RecordID{Topic: j.Topic, Partition: j.Partition, Offset: j.Offset}.String()
	}
	b := logged{
		class: t.failure.Class, id: clip.Text(id, deadletter.MaxCodeBytes), topic: s.topic(t),
		code: t.failure.Code, cause: clip.Text(t.failure.Message, deadletter.MaxMessageBytes),
	}
	if sum, due := s.sums.Note(time.Now(), string(b.class), b); due {
		s.logSum(sum)
	}
}

// KeepLogging logs the sums that are due without a new dead letter, until end is closed.
func (s *Settler) KeepLogging(end <-chan struct{}) {
	t := time.NewTicker(logEvery)
	defer t.Stop()
	for {
		select {
		case <-end:
			return
		case now := <-t.C:
			for _, sum := range s.sums.Due(now) {
				s.logSum(sum)
			}
		}
	}
}

func (s *Settler) logSum(sum tally.Sum[logged]) {
	b := sum.Last
	attrs := []any{"class", b.class, "jobs", sum.Count, "topic", b.topic, "last_id", b.id}
	if sum.Over > 0 {
		attrs = append(attrs, "in", sum.Over.Round(time.Second))
	}
	if b.code != "" {
		attrs = append(attrs, "code", b.code)
	}
	s.o.Log.Warn("jobs were dead-lettered", append(attrs, "error", b.cause)...)
}
