package consumer

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	writeLinger = 5 * time.Millisecond
	// writePatience is how long Kafka may take to acknowledge a record before
	// that is worth a word.
	writePatience = 500 * time.Millisecond
	// produceTimeout is how long a broker may wait for its replicas, and
	// produceOverhead how much later its answer may come. Then the connection is
	// given up, and the same request goes over another one.
	produceTimeout  = 5 * time.Second
	produceOverhead = callTimeout
	// writeMost is the largest record that is tried, in bytes before compression.
	// Brokers close connections that bring more than 100 MiB at once.
	writeMost = 72 << 20
	// writeLayoutAge is how old the knowledge of a topic's partitions may get.
	writeLayoutAge = time.Minute
)

// outgoing is one record on its way to Kafka.
type outgoing struct {
	record *kgo.Record
	// ctx: once it has ended, a record that is known not to be written is given
	// up. One that may be written is awaited all the same.
	ctx context.Context //nolint:containedctx // the life of the job, not of a call
	// told is called once, from any goroutine, and must not block. nil: Kafka has
	// the record. errTooLarge: no batch could be smaller. [kgo.ErrClientClosed]: it
	// is not known. Any other error: the record was not written, and won't be.
	told func(error)

	// Of its queue.
	size   int // bytes, about and before compression
	number uint64
	tries  int       // that failed
	sent   time.Time // when Kafka's client got it

	partition atomic.Int32 // once the client has chosen it
}

// writer brings records to Kafka: jobs and what they become. It hands each record
// to Kafka's client once. That repeats a request whose answer is lost under the
// same number, so that the broker writes it once. All methods are safe to call
// from any goroutine.
type writer struct {
	conn    *Connection
	retry   bool // try again what Kafka refuses, as long as the record's context lasts
	report  func(o *outgoing, err error)
	linger  time.Duration
	tries   int // of the client; 0: no end
	witness *witness

	ctx    context.Context //nolint:containedctx // the writer's life: from the first record to close
	cancel context.CancelFunc
	runs   sync.WaitGroup

	mu     sync.Mutex
	client *kgo.Client // nil: not needed yet
	queues map[string]*writeQueue
	closed bool
}

// newWriter does not connect. report hears of each record that is tried again or
// is not acknowledged in time, as long as that lasts; nil: nobody asks.
func newWriter(conn *Connection, log *slog.Logger, report func(*outgoing, error)) (*writer, error) {
	w := &writer{conn: conn, report: report, linger: writeLinger, witness: &witness{log: log}, queues: make(map[string]*writeQueue)}
	if report == nil {
		w.report = func(*outgoing, error) {}
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	opts, err := w.options()
	if err == nil {
		err = kgo.ValidateOpts(opts...)
	}
	return w, err
}

// options of Kafka's client.
func (w *writer) options() ([]kgo.Opt, error) {
	opts, err := w.conn.clientOptions()
	if err != nil {
		return nil, err
	}
	opts = append(opts,
		kgo.WithLogger(w.witness), kgo.WithHooks(partitionHook{}), kgo.DisableClientMetrics(),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(newSpread()),
		kgo.ProducerBatchCompression(kgo.SnappyCompression(), kgo.NoCompression()),
		kgo.ProducerLinger(w.linger), kgo.ProducerBatchMaxBytes(writeMost), kgo.MaxBufferedRecords(1<<17),
		kgo.ProduceRequestTimeout(produceTimeout), kgo.RequestTimeoutOverhead(produceOverhead),
		kgo.MetadataMinAge(writePatience), kgo.MetadataMaxAge(writeLayoutAge),
		kgo.RetryBackoffFn(func(n int) time.Duration { return backoff(max(n-1, 0), 50*time.Millisecond, 2*time.Second) }),
	)
	if w.tries > 0 {
		opts = append(opts, kgo.RecordRetries(w.tries))
	}
	return opts, nil
}

// put takes a record over. It does not block.
func (w *writer) put(o *outgoing) {
	q, err := w.queue(o.record.Topic)
	if err == nil && q.put(o) {
		return
	}
	if err == nil {
		err = kgo.ErrClientClosed
	}
	o.told(err)
}

// queue is the queue of a topic. It connects the client.
func (w *writer) queue(topic string) (*writeQueue, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, kgo.ErrClientClosed
	}
	if err := w.start(); err != nil {
		return nil, err
	}
	q := w.queues[topic]
	if q == nil {
		q = newWriteQueue(w)
		w.queues[topic] = q
	}
	return q, nil
}

// start makes the client where there is none. The lock is held.
func (w *writer) start() error {
	if w.client != nil {
		return nil
	}
	opts, err := w.options()
	if err != nil {
		return err
	}
	if w.client, err = kgo.NewClient(opts...); err == nil {
		w.runs.Go(w.watch)
	}
	return err
}

// fit says how large a batch a topic takes, in bytes. What is not told is taken
// to be a broker's default.
func (w *writer) fit(topic string, most int) {
	if q, err := w.queue(topic); err == nil {
		q.fit(most)
	}
}

// forget drops what the client knows about a topic that is not there any more:
// it may have been deleted and made again.
func (w *writer) forget(topic string) { w.client.PurgeTopicsFromProducing(topic) }

// watch reports records that are not acknowledged in time, until the writer ends.
func (w *writer) watch() {
	t := time.NewTicker(writePatience)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-w.ctx.Done():
			return
		}
		w.mu.Lock()
		queues := make([]*writeQueue, 0, len(w.queues))
		for _, q := range w.queues {
			queues = append(queues, q)
		}
		w.mu.Unlock()
		var late []*outgoing
		for _, q := range queues {
			late = append(late, q.late(time.Now().Add(-writePatience))...)
		}
		w.witness.listen(len(late) > 0)
		for _, o := range late {
			w.report(o, w.witness.why(o))
		}
	}
}

// close gives up what is on its way: some of it may still be written. It does not
// wait for any broker.
func (w *writer) close() {
	w.mu.Lock()
	client, queues := w.client, w.queues
	w.closed, w.queues = true, nil
	w.mu.Unlock()
	w.cancel()
	for _, q := range queues {
		q.close()
	}
	if client != nil {
		client.Close()
	}
	w.runs.Wait()
}

// partitionHook notes which partition Kafka's client has chosen.
type partitionHook struct{}

type outgoingKey struct{}

// OnProduceRecordPartitioned implements [kgo.HookProduceRecordPartitioned].
func (partitionHook) OnProduceRecordPartitioned(r *kgo.Record, _ int32) {
	if o, ok := r.Context.Value(outgoingKey{}).(*outgoing); ok {
		o.partition.Store(r.Partition)
	}
}

// byNumber is the order in which records were put.
func byNumber(a, b *outgoing) int { return int(int64(a.number) - int64(b.number)) }

// insert puts a record back to its place among those that wait.
func insert(waiting []*outgoing, o *outgoing) []*outgoing {
	at, _ := slices.BinarySearchFunc(waiting, o, byNumber)
	return slices.Insert(waiting, at, o)
}
