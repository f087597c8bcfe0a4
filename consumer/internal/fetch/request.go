package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/offsets"
	"dispatcher/consumer/internal/schedule"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchRequest is one request under way. It belongs to its goroutine.
type fetchRequest struct {
	f    *Fetcher
	addr string
	kind requestKind
	wait time.Duration
	all  []*reading
}

// outcome is the result of a request for one partition.
type outcome struct {
	r      *reading
	next   int64 // the next offset to ask for
	behind bool
	served bool // there were records
	bytes  int  // that they hold in memory
	full   bool
	small  bool // more bytes have to be asked for
	err    error
}

// answer holds outcomes for the goroutine of Run. The last answer of a request names it.
type answer struct {
	outcomes []outcome
	over     *fetchRequest
}

// request asks a broker for partitions.
func (f *Fetcher) request(addr string, b *brokerLoad, kind requestKind, all []*reading, now time.Time) {
	q := &fetchRequest{f: f, addr: addr, kind: kind, wait: broker.FetchWait, all: slices.Clone(all)}
	if kind == longPoll {
		// Long polls end together, and then become one again.
		if b.underWay[kind] > 0 && b.until.After(now) {
			q.wait = max(b.until.Sub(now), time.Millisecond)
		} else {
			b.until = now.Add(broker.FetchWait)
		}
	}
	b.underWay[kind]++
	for _, r := range q.all {
		r.busy, r.roomy = true, false
	}
	f.running.Go(q.run)
}

func (q *fetchRequest) run() {
	ctx, cancel := context.WithTimeout(q.f.o.Assignment.Context(), broker.FetchWait+broker.CallTimeout)
	defer cancel()
	asked := len(q.all)
	err := q.f.o.Client.Request(ctx, q.addr, q.message(), broker.FetchVersion, q.handle)
	if err == nil && len(q.all) == asked {
		err = errors.New("fetch: the answer holds no partition that was asked for")
	}
	last := answer{over: q}
	for _, r := range q.all { // partitions that the answer, if there was one, does not hold
		last.outcomes = append(last.outcomes, outcome{r: r, next: r.at, behind: r.behind, err: err})
	}
	q.report(last)
}

// report sends outcomes to the goroutine of Run.
func (q *fetchRequest) report(a answer) {
	select {
	case q.f.answers <- a:
	case <-q.f.o.Assignment.Context().Done():
	}
}

func (q *fetchRequest) message() *kmsg.FetchRequest {
	req := broker.NewFetch(q.f.o.Source.Topic, q.wait, answerBytes)
	for _, r := range q.all {
		broker.AddToFetch(req, r.p.ID(), r.at, r.limit)
		req.MaxBytes = max(req.MaxBytes, r.limit)
	}
	return req
}

// handle reports the partitions of an answer: first those without records, then those with
// records one by one, and last those with errors, which may take further requests.
func (q *fetchRequest) handle(res kmsg.Response) error {
	parts, err := broker.FetchedPartitions(res)
	if err != nil {
		return err
	}
	var empty answer
	var withRecords, failed []*kmsg.FetchResponseTopicPartition
	for i := range parts {
		switch part := &parts[i]; {
		case part.ErrorCode != 0:
			failed = append(failed, part)
		case len(part.RecordBatches) > 0:
			withRecords = append(withRecords, part)
		default:
			if r := q.take(part.Partition); r != nil {
				empty.outcomes = append(empty.outcomes, q.f.empty(r, part))
			}
		}
	}
	if len(withRecords) == 0 && len(empty.outcomes) > 0 && empty.outcomes[0].behind {
		// There are records, and the broker sent none: the first partition's next batch is
		// larger than was asked for.
		o := &empty.outcomes[0]
		o.small, o.err = true, stuck(o.next)
	}
	if len(empty.outcomes) > 0 {
		q.report(empty)
	}
	for _, part := range withRecords {
		if r := q.take(part.Partition); r != nil {
			q.report(answer{outcomes: []outcome{q.f.records(r, part)}})
		}
	}
	for _, part := range failed {
		if r := q.take(part.Partition); r != nil {
			q.report(answer{outcomes: []outcome{q.f.fault(r, part)}})
		}
	}
	return nil
}

// take removes a partition from those that have no outcome yet; nil: it was not asked for.
func (q *fetchRequest) take(id int32) *reading {
	i := slices.IndexFunc(q.all, func(r *reading) bool { return r.p.ID() == int(id) })
	if i < 0 {
		return nil
	}
	r := q.all[i]
	q.all = slices.Delete(q.all, i, i+1)
	return r
}

// empty is the outcome of a partition without records. Its last stable offset may have
// moved all the same.
func (f *Fetcher) empty(r *reading, part *kmsg.FetchResponseTopicPartition) outcome {
	o := outcome{r: r, next: r.at, behind: part.LastStableOffset > r.at}
	if part.LastStableOffset != r.stable {
		o.full = !f.hand(r, &schedule.Batch{Next: r.at, Stable: part.LastStableOffset})
	}
	return o
}

// hand gives a batch to the scheduler. It returns whether there is room for more.
func (f *Fetcher) hand(r *reading, b *schedule.Batch) bool {
	r.stable = b.Stable
	return r.p.Add(b)
}

// records gives the records of a partition to the scheduler.
func (f *Fetcher) records(r *reading, part *kmsg.FetchResponseTopicPartition) outcome {
	o := outcome{r: r, next: r.at, served: true}
	m := batchMaker{p: r.p, limits: f.o.Limits, unpack: f.o.Client.Unpacker}
	b, err := m.make(part, r.at)
	if err != nil {
		o.err = err
		return o
	}
	if b.Next == r.at {
		o.small, o.err = true, stuck(r.at)
		return o
	}
	o.next, o.behind, o.bytes = b.Next, part.LastStableOffset > b.Next, b.Bytes
	o.full = !f.hand(r, b)
	return o
}

// stuck is the error of a partition whose next batch is larger than was asked for.
func stuck(at int64) error {
	return fmt.Errorf("fetch: the answer does not hold the whole batch at offset %d", at)
}

// fault is the outcome of a partition for which the broker returned an error.
func (f *Fetcher) fault(r *reading, part *kmsg.FetchResponseTopicPartition) outcome {
	err := fmt.Errorf("fetch: %w", kafka.Error(part.ErrorCode))
	if errors.Is(err, kafka.OffsetOutOfRange) {
		return f.outOfRange(r, part, err)
	}
	return outcome{r: r, next: r.at, err: err}
}

// note takes over the outcomes of an answer.
func (f *Fetcher) note(a answer, now time.Time) {
	var failed []*reading
	var err error
	for _, o := range a.outcomes {
		r := o.r
		r.busy = false
		f.fetched += o.bytes
		if o.err != nil {
			if o.small {
				r.limit = min(r.limit*2, broker.MaxFetchBytes)
			}
			if failed = append(failed, r); err == nil {
				err = o.err
			}
			continue
		}
		if r.faults > 0 {
			f.o.Health.Works(f.source(r))
		}
		r.at, r.behind, r.served = o.next, o.behind, o.served
		r.limit, r.faults, r.full = broker.FetchBytes, 0, o.full && !r.roomy
	}
	if len(failed) > 0 {
		f.failed(failed, err, now)
	}
	if q := a.over; q != nil {
		b := f.brokers[q.addr]
		b.underWay[q.kind]--
		if q.kind == longPoll {
			b.next = now.Add(pollGap + time.Duration(len(f.order))*pollGapEach)
		}
	}
}

// outOfRange goes on at the beginning of a log that was deleted up to there. If the log ends
// before our offset instead, the member joins again, which checks the committed offset. It
// awaits no call and commits nothing before: jobs that are written meanwhile, below our offset,
// would be passed over. So jobs that are done may be repeated.
func (f *Fetcher) outOfRange(r *reading, part *kmsg.FetchResponseTopicPartition, err error) outcome {
	ctx, cancel := context.WithTimeout(f.o.Assignment.Context(), broker.CallTimeout)
	defer cancel()
	first, last, ferr := broker.LogRange(ctx, f.o.Client, f.o.Source.Topic, r.p.ID(), kafka.ReadUncommitted)
	if ferr != nil {
		return outcome{r: r, next: r.at, err: ferr}
	}
	if r.at < first {
		return f.deleted(r, first, last, max(first, part.LastStableOffset))
	}
	if r.at > last {
		f.o.Log.Error("log ends before the offset that was reached, joining again",
			"topic", f.o.Source.Topic, "partition", r.p.ID(), "offset", r.at, "log_end", last)
		f.o.Rejoin()
	}
	return outcome{r: r, next: r.at, err: err}
}

// deleted goes on where out_of_range says, after records that retention has deleted. It is
// the same log, so completed offsets after its new beginning still count.
func (f *Fetcher) deleted(r *reading, first, last, stable int64) outcome {
	policy := f.o.OutOfRange
	f.o.Log.Error("records were deleted before they were worked", "partition", r.p.ID(), "from", r.at, "to", first, "out_of_range", policy)
	o := outcome{r: r, next: first, behind: true}
	switch policy {
	case offsets.RangeStop:
		err := offsets.RangeError(r.p.ID(), r.at, first, last)
		f.o.Refuse(err)
		return outcome{r: r, next: r.at, err: err}
	case offsets.RangeLatest:
		o.next = last
	case offsets.RangeEarliest:
	}
	stable = max(o.next, stable)
	o.behind = stable > o.next || last > o.next
	o.full = !f.hand(r, &schedule.Batch{Next: o.next, Stable: stable})
	return o
}
