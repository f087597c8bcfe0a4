package consumer

import (
	"context"
	"time"

	"github.com/segmentio/kafka-go"

	"dispatcher/job"
)

const (
	sourceResults = "results"

	resultBatch      = 1000      // records a request
	resultBatchBytes = 512 << 10 // about; a single one that is larger goes alone
	// resultLayoutAge is how old the knowledge of a results topic's partitions
	// may get.
	resultLayoutAge = time.Minute
)

// courier writes the results of one partition, one request at a time: what
// comes meanwhile goes with the next one. Its goroutine lives while there are
// some.
type courier struct {
	r     *Results
	route route
	from  source

	// Guarded by the lock of Results.
	waiting []*entry
	busy    bool // run is running

	// Of run.
	most  int // records a request
	tries int // that have failed since the last success
	asked time.Time
}

// run ends when nothing waits any more.
func (c *courier) run() {
	if time.Since(c.asked) > resultLayoutAge && c.look() {
		c.scatter()
	}
	pause(c.r.ctx, deadLinger)
	for batch := c.next(); len(batch) > 0; batch = c.next() {
		err := c.write(batch)
		switch {
		case err == nil:
			c.wrote(batch)
			continue
		case tooLarge(err) && c.shrink(batch):
			c.putBack(batch)
			continue
		}
		c.failed(c.putBack(batch), err)
		pause(c.r.ctx, backoff(c.tries-1, 50*time.Millisecond, 2*time.Second))
		if c.look() {
			c.scatter()
		}
	}
}

// next takes the next batch; none: the courier's run is over.
func (c *courier) next() []*entry {
	c.r.mu.Lock()
	var late, batch []*entry
	if c.r.closed {
		late, c.waiting = c.waiting, nil
		c.r.waiting -= len(late)
	}
	n, size := 0, 0
	for n < len(c.waiting) && n < c.most && (n == 0 || size < resultBatchBytes) {
		size += len(c.waiting[n].key) + len(c.waiting[n].value)
		n++
	}
	batch, c.waiting = c.waiting[:n:n], c.waiting[n:]
	if len(c.waiting) == 0 {
		c.waiting = nil // what was written is not to be held by the list
	}
	c.busy = n > 0
	c.r.mu.Unlock()
	giveUp(late)
	return batch
}

// giveUp ends entries without a result.
func giveUp(entries []*entry) {
	for _, e := range entries {
		e.end(false)
	}
}

// write makes one request.
func (c *courier) write(batch []*entry) error {
	records := make([]kafka.Record, len(batch))
	for i, e := range batch {
		records[i] = kafka.Record{
			Key: kafka.NewBytes(e.key), Value: kafka.NewBytes(e.value), Time: e.at, Headers: resultHeaders(&e.d.Job),
		}
	}
	ctx, cancel := context.WithTimeout(c.r.ctx, c.r.attempt)
	defer cancel()
	res, err := c.r.client.Produce(ctx, &kafka.ProduceRequest{
		Topic: c.route.topic, Partition: c.route.partition, RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(records...),
	})
	if err == nil {
		err = res.Error
	}
	return err
}

func (c *courier) wrote(batch []*entry) {
	if c.tries > 0 {
		c.r.state.works(c.from)
	}
	c.tries, c.most = 0, min(c.most+1, resultBatch)
	c.r.mu.Lock()
	c.r.waiting -= len(batch)
	c.r.mu.Unlock()
	for _, e := range batch {
		c.r.metrics.written.WithLabelValues(e.result).Inc()
		e.end(true)
	}
}

// failed notes a failure, and logs one that lasts. What nobody waits for any more
// is none.
func (c *courier) failed(kept int, err error) {
	c.tries++
	c.r.metrics.errors.Inc()
	if kept == 0 {
		c.r.state.works(c.from)
		return
	}
	if c.r.state.fails(c.from, err, fetchPatience) {
		c.r.log.Error("results could not be written, their jobs stay open, trying again",
			"topic", c.route.topic, "partition", c.route.partition, "count", kept, "error", err)
	}
}

// putBack puts a batch in front again, but for what belongs to an assignment
// that has drained: nobody waits for that any more. It returns how many it kept.
func (c *courier) putBack(batch []*entry) int {
	var kept, late []*entry
	for _, e := range batch {
		if e.d.part.asg.drainLeft(c.r.attempt) > 0 {
			kept = append(kept, e)
		} else {
			late = append(late, e)
		}
	}
	c.r.mu.Lock()
	c.r.waiting -= len(late)
	c.waiting = append(kept, c.waiting...)
	c.r.mu.Unlock()
	giveUp(late)
	return len(kept)
}

// shrink makes the next request smaller: fewer records, or a single one under
// the job's id, since nothing but the key can be large. It returns whether there
// was anything to be made smaller.
func (c *courier) shrink(batch []*entry) bool {
	c.most = max(1, len(batch)/2)
	if len(batch) > 1 {
		return true
	}
	e := batch[0]
	whole := len(e.key) > len(e.d.Job.ID)
	e.key = []byte(e.d.Job.ID)
	return whole
}

// look asks which partitions the topic has, and returns whether that is news.
func (c *courier) look() bool {
	c.asked = time.Now()
	ctx, cancel := context.WithTimeout(c.r.ctx, c.r.attempt)
	defer cancel()
	res, err := c.r.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{c.route.topic}})
	return err == nil && len(res.Topics) == 1 && res.Topics[0].Error == nil && c.r.know(res.Topics[0])
}

// scatter sends what waits to where it belongs now.
func (c *courier) scatter() {
	c.r.mu.Lock()
	all := c.waiting
	c.waiting = nil
	c.r.waiting -= len(all)
	c.r.mu.Unlock()
	for _, e := range all {
		c.r.put(e)
	}
}

// resultHeaders say what the value is, and keep the trace together.
func resultHeaders(j *job.Job) []kafka.Header {
	h := []kafka.Header{{Key: job.HeaderContentType, Value: []byte("application/json")}}
	if j.Traceparent != "" {
		h = append(h, kafka.Header{Key: job.HeaderTraceparent, Value: []byte(j.Traceparent)})
	}
	return h
}
