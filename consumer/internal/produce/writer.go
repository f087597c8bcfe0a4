package produce

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dispatcher/consumer/internal/broker"

	"dispatcher/internal/wait"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// DefaultBatchBytes is a little below what a broker takes at once by default. A
	// larger letter is tried as it is before it is cut to this.
	DefaultBatchBytes = 1<<20 - 16<<10
	// DefaultLinger is how long a batch that is not full waits.
	DefaultLinger = 5 * time.Millisecond
	// Patience is how long Kafka may take to acknowledge a record before
	// that is worth a word.
	LateAfter = 500 * time.Millisecond
	// produceTimeout is how long a broker may wait for its replicas, and
	// produceOverhead how much later its answer may come. Then the connection is
	// given up, and the same request goes over another one.
	produceTimeout  = 5 * time.Second
	produceOverhead = broker.CallTimeout
	// maxRecordBytes is the largest record that is tried, in bytes before compression.
	// Brokers close connections that bring more than 100 MiB at once.
	maxRecordBytes = 72 << 20
	// writeLayoutAge is how old the knowledge of a topic's partitions may get.
	writeLayoutAge = time.Minute
)

// Request is one record on its way to Kafka.
type Request struct {
	Record *kgo.Record
	// Context: once it has ended, a record that is known not to be written is given
	// up. One that may be written is awaited all the same.
	Context context.Context //nolint:containedctx // the life of the job, not of a call
	// Done is called once, from any goroutine, and must not block. nil: Kafka has
	// the record. errTooLarge: no batch could be smaller. [kgo.ErrClientClosed]: it
	// is not known. Any other error: the record was not written, and won't be.
	Done func(error)

	// Of its queue.
	size   int // bytes, about and before compression
	number uint64
	tries  int       // that failed
	sent   time.Time // when Kafka's client got it

	Partition atomic.Int32 // once the client has chosen it
}

// Writer brings records to Kafka: jobs and what they become. It hands each record
// to Kafka's client once. That repeats a request whose answer is lost under the
// same number, so that the broker writes it once. All methods are safe to call
// from any goroutine.
type Writer struct {
	conn      *broker.Connection
	Retry     bool // try again what Kafka refuses, as long as the record's context lasts
	report    func(o *Request, err error)
	Linger    time.Duration
	Tries     int // of the client; 0: no end
	clientLog *clientLog

	ctx    context.Context //nolint:containedctx // the writer's life: from the first record to close
	cancel context.CancelFunc
	runs   sync.WaitGroup

	mu     sync.Mutex
	client *kgo.Client // nil: not needed yet
	queues map[string]*queue
	closed bool
}

// NewWriter does not connect. report hears of each record that is tried again or
// is not acknowledged in time, as long as that lasts; nil: nobody asks.
func NewWriter(conn *broker.Connection, log *slog.Logger, report func(*Request, error)) (*Writer, error) {
	w := &Writer{conn: conn, report: report, Linger: DefaultLinger, clientLog: &clientLog{log: log}, queues: make(map[string]*queue)}
	if report == nil {
		w.report = func(*Request, error) {}
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	opts, err := w.options()
	if err == nil {
		err = kgo.ValidateOpts(opts...)
	}
	return w, err
}

// options of Kafka's client.
func (w *Writer) options() ([]kgo.Opt, error) {
	opts, err := w.conn.KgoOptions()
	if err != nil {
		return nil, err
	}
	opts = append(opts,
		kgo.WithLogger(w.clientLog), kgo.WithHooks(partitionHook{}), kgo.DisableClientMetrics(),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(newPartitioner()),
		kgo.ProducerBatchCompression(kgo.SnappyCompression(), kgo.NoCompression()),
		kgo.ProducerLinger(w.Linger), kgo.ProducerBatchMaxBytes(maxRecordBytes), kgo.MaxBufferedRecords(1<<17),
		kgo.ProduceRequestTimeout(produceTimeout), kgo.RequestTimeoutOverhead(produceOverhead),
		kgo.MetadataMinAge(LateAfter), kgo.MetadataMaxAge(writeLayoutAge),
		kgo.RetryBackoffFn(func(n int) time.Duration { return wait.Backoff(max(n-1, 0), 50*time.Millisecond, 2*time.Second) }),
	)
	if w.Tries > 0 {
		opts = append(opts, kgo.RecordRetries(w.Tries))
	}
	return opts, nil
}

// Put takes a record over. It does not block.
func (w *Writer) Put(o *Request) {
	q, err := w.queue(o.Record.Topic)
	if err == nil && q.put(o) {
		return
	}
	if err == nil {
		err = kgo.ErrClientClosed
	}
	o.Done(err)
}

// queue is the queue of a topic. It connects the client.
func (w *Writer) queue(topic string) (*queue, error) {
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
		q = newQueue(w)
		w.queues[topic] = q
	}
	return q, nil
}

// start makes the client where there is none. The lock is held.
func (w *Writer) start() error {
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

// setBatchBytes says how large a batch a topic takes, in bytes. What is not told is taken
// to be a broker's default.
func (w *Writer) setBatchBytes(topic string, most int) {
	if q, err := w.queue(topic); err == nil {
		q.setBatchBytes(most)
	}
}

// UseSettings takes over how large a topic's batches may be.
func (w *Writer) UseSettings(topic string, s broker.TopicSettings) {
	if n, ok := s.Number(broker.MaxMessageBytes); ok && n > 0 {
		w.setBatchBytes(topic, int(min(n, maxRecordBytes)))
	}
}

// forget drops what the client knows about a topic that is not there any more:
// it may have been deleted and made again.
func (w *Writer) forget(topic string) { w.client.PurgeTopicsFromProducing(topic) }

// watch reports records that are not acknowledged in time, until the writer ends.
func (w *Writer) watch() {
	t := time.NewTicker(LateAfter)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-w.ctx.Done():
			return
		}
		w.mu.Lock()
		queues := make([]*queue, 0, len(w.queues))
		for _, q := range w.queues {
			queues = append(queues, q)
		}
		w.mu.Unlock()
		var late []*Request
		for _, q := range queues {
			late = append(late, q.late(time.Now().Add(-LateAfter))...)
		}
		w.clientLog.listen(len(late) > 0)
		for _, o := range late {
			w.report(o, w.clientLog.why(o))
		}
	}
}

// Close gives up what is on its way: some of it may still be written. It does not
// wait for any broker.
func (w *Writer) Close() {
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

type requestKey struct{}

// OnProduceRecordPartitioned implements [kgo.HookProduceRecordPartitioned].
func (partitionHook) OnProduceRecordPartitioned(r *kgo.Record, _ int32) {
	if o, ok := r.Context.Value(requestKey{}).(*Request); ok {
		o.Partition.Store(r.Partition)
	}
}

// byNumber is the order in which records were put.
func byNumber(a, b *Request) int { return int(int64(a.number) - int64(b.number)) }

// insert puts a record back to its place among those that wait.
func insert(waiting []*Request, o *Request) []*Request {
	at, _ := slices.BinarySearchFunc(waiting, o, byNumber)
	return slices.Insert(waiting, at, o)
}
