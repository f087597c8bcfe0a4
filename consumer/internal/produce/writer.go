package produce

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dispatcher/consumer/internal/broker"
	"dispatcher/internal/wait"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// DefaultBatchBytes is a little below the largest batch that a broker accepts by
	// default. A larger dead letter is first written as it is, and truncated to this size
	// only if the broker refuses it.
	DefaultBatchBytes = 1<<20 - 16<<10
	// LateAfter is how long Kafka may take to acknowledge a record before the writer
	// reports the record.
	LateAfter = 500 * time.Millisecond

	defaultLinger = 5 * time.Millisecond
	// produceTimeout is how long a broker may wait for its replicas, and
	// produceOverhead how much later its answer may arrive. After that, kgo closes the
	// connection and repeats the request on another one.
	produceTimeout  = 5 * time.Second
	produceOverhead = broker.CallTimeout
	// maxRecordBytes is the size of the largest record that the writer accepts, before
	// compression. Brokers close a connection whose request exceeds 100 MiB.
	maxRecordBytes = 72 << 20
	// maxMetadataAge is how old the known partitions of a topic may get.
	maxMetadataAge = time.Minute
)

// NoPartition is the partition of a record for which kgo has not chosen one, as in package health.
const NoPartition = -1

// Request is one record to write.
type Request struct {
	Record *kgo.Record
	// Context: when it ends, the writer gives the record up if the record is known not to
	// be written. The writer still awaits a record that may be written.
	Context context.Context //nolint:containedctx // the life of the job, not of a call
	// Done is called once, from any goroutine, and must not block. Its error means:
	//   - nil: Kafka has the record.
	//   - [broker.TooLarge]: Kafka refused the record even alone in its batch, and it is not Smallest.
	//   - [kgo.ErrClientClosed]: not known whether the record was written.
	//   - any other error: the record was not written and won't be.
	Done func(error)

	// Smallest: nothing more can be left out of the record. With [WriterOptions.Retry], a refusal
	// of its size is then tried again like any other: an operator may let the topic take it.
	Smallest bool

	// Guarded by the queue's lock.
	bytes    int // in a batch; see bytesInBatch
	number   uint64
	attempts int       // that failed
	sent     time.Time // when kgo got it

	Partition atomic.Int32 // that kgo has chosen; NoPartition until then
}

// WriterOptions configures a [Writer]. A zero field means its default.
type WriterOptions struct {
	Logger *slog.Logger // required
	// Report is called for each record that the writer tries again, and repeatedly for
	// each record that is not acknowledged within [LateAfter].
	Report func(r *Request, err error)
	// Retry: write a record again that Kafka refused, until the record's context ends.
	Retry    bool
	Linger   time.Duration // how long a batch that isn't full waits; default 5 ms
	Attempts int           // of kgo for one record; 0: no limit
}

// Writer writes records to Kafka without blocking its caller. Its methods may be called from
// any goroutine.
type Writer struct {
	opts      WriterOptions
	kgoOpts   []kgo.Opt
	clientLog *clientLog
	lost      lostAnswers

	ctx        context.Context //nolint:containedctx // the writer's life, until Close
	cancel     context.CancelFunc
	goroutines sync.WaitGroup

	mu     sync.Mutex
	client *kgo.Client // nil before the first Put or UseSettings
	queues map[string]*queue
	closed bool
}

// NewWriter checks the options. It does not connect.
func NewWriter(conn *broker.Connection, o WriterOptions) (*Writer, error) {
	o.Linger = cmp.Or(o.Linger, defaultLinger)
	if o.Report == nil {
		o.Report = func(*Request, error) {}
	}
	w := &Writer{opts: o, clientLog: &clientLog{log: o.Logger}, queues: make(map[string]*queue)}
	var err error
	if w.kgoOpts, err = w.clientOptions(conn); err != nil {
		return nil, err
	}
	if err := kgo.ValidateOpts(w.kgoOpts...); err != nil {
		return nil, err
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w, nil
}

func (w *Writer) clientOptions(conn *broker.Connection) ([]kgo.Opt, error) {
	opts, err := conn.KgoOptions()
	if err != nil {
		return nil, err
	}
	opts = append(opts,
		kgo.WithLogger(w.clientLog), kgo.WithHooks(partitionHook{}, &w.lost), kgo.DisableClientMetrics(),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(newPartitioner()),
		kgo.ProducerBatchCompression(kgo.SnappyCompression(), kgo.NoCompression()),
		kgo.ProducerLinger(w.opts.Linger), kgo.ProducerBatchMaxBytes(maxRecordBytes), kgo.MaxBufferedRecords(1<<17),
		kgo.ProduceRequestTimeout(produceTimeout), kgo.RequestTimeoutOverhead(produceOverhead),
		kgo.MetadataMinAge(LateAfter), kgo.MetadataMaxAge(maxMetadataAge),
		kgo.RetryBackoffFn(func(n int) time.Duration { return wait.Backoff(max(n-1, 0), 50*time.Millisecond, 2*time.Second) }),
	)
	if w.opts.Attempts > 0 {
		opts = append(opts, kgo.RecordRetries(w.opts.Attempts))
	}
	return opts, nil
}

// Put queues a record. It does not block.
func (w *Writer) Put(r *Request) {
	r.Partition.Store(NoPartition)
	q, err := w.queue(r.Record.Topic)
	if err == nil && q.put(r) {
		return
	}
	if err == nil {
		err = kgo.ErrClientClosed
	}
	r.Done(err)
}

// queue returns the queue of a topic, and creates it and kgo's client if needed.
func (w *Writer) queue(topic string) (*queue, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, kgo.ErrClientClosed
	}
	if w.client == nil {
		client, err := kgo.NewClient(w.kgoOpts...)
		if err != nil {
			return nil, err
		}
		w.client = client
		w.goroutines.Go(w.reportLate)
	}
	q := w.queues[topic]
	if q == nil {
		q = newQueue(w)
		w.queues[topic] = q
	}
	return q, nil
}

// UseSettings tells the writer how large a batch a topic accepts. Without
// max.message.bytes among the settings, the writer assumes a broker's default.
func (w *Writer) UseSettings(topic string, s broker.TopicSettings) {
	n, ok := s.Number(broker.MaxMessageBytes)
	if !ok || n <= 0 {
		return
	}
	if q, err := w.queue(topic); err == nil {
		q.setBatchBytes(int(min(n, maxRecordBytes)))
	}
}

// forget makes kgo drop its metadata of a topic that the broker does not know: the topic
// may have been deleted and created again.
func (w *Writer) forget(topic string) { w.client.PurgeTopicsFromProducing(topic) }

// reportLate reports records that are not acknowledged in time, until the writer closes.
func (w *Writer) reportLate() {
	t := time.NewTicker(LateAfter)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-w.ctx.Done():
			return
		}
		w.mu.Lock()
		queues := slices.Collect(maps.Values(w.queues))
		w.mu.Unlock()
		late := make(map[*Request]time.Time)
		for _, q := range queues {
			q.addLate(late, time.Now().Add(-LateAfter))
		}
		w.clientLog.listen(len(late) > 0)
		for r, since := range late {
			w.opts.Report(r, w.clientLog.reason(since))
		}
	}
}

// Close gives up all records that are not acknowledged. Kafka may still write some of them.
// Close does not wait for any broker.
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
	w.goroutines.Wait()
}
