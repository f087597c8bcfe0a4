package consumer

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// Outcome is what became of a job, for its record on <topic>.results.
type Outcome struct {
	// Result is one of the job.Result constants. Empty: accepted or, beside a
	// dead letter, what its class says.
	Result    string
	Status    int       // HTTP status of the last call; 0: none
	MessageID string    // what the provider calls the message; empty: not known
	Attempts  int       // calls that left the process
	SentAt    time.Time // when the last call was written; zero: never
	Error     string    // for people; never holds the payload
}

// Results settles jobs and says on <topic>.results what became of each. A job
// is settled only when Kafka has its result: what a crash leaves unwritten is
// worked again, so that no result is lost and some may come twice.
//
// Nobody waits for that but the job itself. Results are gathered and written in
// batches beside the workers; at most as many wait as jobs are in hand. While a
// results topic can't be written its jobs stay open, and once all in hand are,
// nothing more is handed out.
//
// All methods are safe to call from any goroutine. Those of a nil Results
// settle at once and write nothing.
type Results struct {
	client  *client
	state   *state
	metrics *resultMetrics
	log     *slog.Logger
	node    string
	attempt time.Duration   // for one write
	ctx     context.Context //nolint:containedctx // the couriers' life: from New to the end of Run
	cancel  context.CancelFunc
	runs    sync.WaitGroup // couriers

	mu       sync.Mutex
	closed   bool
	waiting  int
	sizes    map[string][]int // the partitions of each results topic that is known
	couriers map[route]*courier
}

// route is one partition of a results topic.
type route struct {
	topic     string
	partition int
}

// entry is one result on its way. It belongs to the courier that holds it.
type entry struct {
	d       *Delivery
	result  string
	topic   string
	key     []byte
	value   []byte
	at      time.Time
	written chan bool // told in place of settling; nil: settle. One slot
}

func newResults(o *Options, cl *client, s *state) *Results {
	r := &Results{
		client: cl, state: s, metrics: newResultMetrics(), log: o.Logger, node: o.Node,
		// As for dead letters: what has begun when the drain does ends within it.
		attempt: min(o.Drain/2, callTimeout),
		sizes:   make(map[string][]int), couriers: make(map[route]*courier),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Done settles the job as [Delivery.Done] does, once Kafka has its result. It
// does not block. If the result is not written when the drain ends the job is
// returned.
func (r *Results) Done(d *Delivery, o Outcome) {
	if r == nil {
		d.Done()
		return
	}
	if d.part.hub.claim(d) {
		r.put(r.entry(d, o, ""))
	}
}

// Dead writes the job's result and then does as [Delivery.Dead] does. It blocks
// as that does; if the result is not written when the drain ends the job is
// returned.
func (r *Results) Dead(d *Delivery, f Failure, o Outcome) {
	if r == nil {
		d.Dead(f)
		return
	}
	if !d.part.hub.claim(d) {
		return
	}
	e := r.entry(d, o, f.Class)
	e.written = make(chan bool, 1)
	r.put(e)
	if <-e.written {
		d.Dead(f)
	} else {
		d.Return()
	}
}

// owes tells whether a letter ends a job that has a result. What could not be
// read has no id, and no result; what is only delayed has none yet.
func (r *Results) owes(l *letter) bool { return r != nil && l.d.Job.ID != "" && !l.delayed() }

// before writes the results of letters that no worker sees, all at once, and
// returns those that may go on. Once ctx has ended it waits no longer: nobody is
// working these jobs, and the drain is not to be held up for them. Of the others
// the jobs are returned.
func (r *Results) before(ctx context.Context, letters []letter) (kept []letter) {
	entries := make([]*entry, len(letters))
	for i := range letters {
		l := &letters[i]
		entries[i] = r.entry(l.d, Outcome{Attempts: l.f.Attempt, Error: l.f.Message}, l.f.Class)
		entries[i].written = make(chan bool, 1)
		r.put(entries[i])
	}
	for i, e := range entries {
		written := false
		select {
		case written = <-e.written:
		case <-ctx.Done():
		}
		if written {
			kept = append(kept, letters[i])
		} else {
			e.d.part.hub.settle(e.d, false)
		}
	}
	return kept
}

// end carries out what was to follow the write.
func (e *entry) end(written bool) {
	switch {
	case e.written != nil:
		e.written <- written
	case written:
		e.d.Done()
	default:
		e.d.Return()
	}
}

// put gives a result to the courier of its partition.
func (r *Results) put(e *entry) {
	r.mu.Lock()
	taken := r.deliver(e)
	r.mu.Unlock()
	if !taken {
		e.end(false)
	}
}

// deliver is put with the lock held; false: it is too late for that.
func (r *Results) deliver(e *entry) bool {
	ids := r.sizes[e.topic]
	if r.closed || len(ids) == 0 {
		return false
	}
	to := route{e.topic, kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: e.key}, ids...)}
	c := r.couriers[to]
	if c == nil {
		c = &courier{r: r, route: to, from: source{sourceResults, e.d.Job.Topic, to.partition}, most: resultBatch}
		r.couriers[to] = c
	}
	c.waiting = append(c.waiting, e)
	r.waiting++
	if !c.busy {
		c.busy = true
		r.runs.Go(c.run)
	}
	return true
}

// close ends the couriers, after the last drain: no result counts any more. A
// write that is under way is given up; it may still happen.
func (r *Results) close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.runs.Wait()
}

// know notes which partitions a results topic has, and returns whether that is
// news.
func (r *Results) know(t kafka.Topic) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(t.Partitions) == 0 || len(t.Partitions) == len(r.sizes[t.Name]) {
		return false
	}
	ids := make([]int, len(t.Partitions))
	for i := range ids {
		ids[i] = i
	}
	r.sizes[t.Name] = ids
	return true
}
