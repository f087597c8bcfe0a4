package consumer

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

const (
	// fetchWait bounds a long poll, and with it how long an idle connection
	// of a partition that was given up stays busy.
	fetchWait = 250 * time.Millisecond
	// fetchBytes is plenty at throttled rates. A single batch that is larger
	// comes whole all the same; where a broker cuts it, the limit grows.
	fetchBytes    = 256 << 10
	fetchBytesMax = 128 << 20

	readCommitted = 1

	// fetchPatience is how long a partition may fail before it is worth a
	// warning: a change of leaders is mostly over by then.
	fetchPatience = 500 * time.Millisecond
)

// fetcher reads one partition. It belongs to one goroutine.
type fetcher struct {
	a     *assignment
	p     *partition
	at    int64 // the next offset to ask for
	limit int32 // bytes to ask for
	maker batchMaker
}

// fetchLoop fetches while there is room, until the assignment ends. It never
// returns for a fault of the network: that would end the generation.
func (a *assignment) fetchLoop(p *partition) {
	f := &fetcher{a: a, p: p, at: p.begin, limit: fetchBytes}
	f.maker = batchMaker{p: p, maxBytes: a.g.c.opts.MaxJobBytes, order: a.g.c.opts.Order, seed: maphash.MakeSeed()}
	from := source{sourceFetch, p.topic, p.id}
	for faults := 0; a.ctx.Err() == nil; {
		err := f.step()
		if err == nil {
			if faults > 0 {
				a.g.c.state.works(from)
			}
			faults = 0
			continue
		}
		if a.ctx.Err() != nil {
			return
		}
		faults++
		if a.g.c.state.fails(from, err, fetchPatience) {
			a.g.log().Warn("could not fetch, trying again", "partition", p.id, "error", err)
		}
		pause(a.ctx, backoff(faults, 25*time.Millisecond, time.Second))
	}
}

func (f *fetcher) step() error {
	res, err := f.fetch()
	if errors.Is(err, kafka.OffsetOutOfRange) {
		return f.outOfRange(res, err)
	}
	if err != nil {
		return err
	}
	b, err := f.maker.make(res, f.at)
	if err != nil {
		return err
	}
	if b.next == f.at && res.LastStableOffset > f.at {
		return f.stuck()
	}
	moved := b.next != f.at
	f.at, f.limit = b.next, fetchBytes
	if (moved || b.stable != f.p.stable) && !f.a.g.c.hub.add(f.p, b) {
		f.awaitRoom()
	}
	return nil
}

func (f *fetcher) awaitRoom() {
	select {
	case <-f.p.wake:
	case <-f.a.ctx.Done():
	}
}

func (f *fetcher) fetch() (*fetch.ResponsePartition, error) {
	ctx, cancel := context.WithTimeout(f.a.ctx, fetchWait+callTimeout)
	defer cancel()
	return fetchCommitted(ctx, f.a.g.c.client, f.p.topic, f.p.id, f.at, f.limit)
}

// stuck asks for more when a broker had records and sent none of them whole.
func (f *fetcher) stuck() error {
	f.limit = min(f.limit*2, fetchBytesMax)
	return fmt.Errorf("fetch: offset %d could not be passed", f.at)
}

// outOfRange follows a log whose beginning has overtaken us. If its end fell
// behind instead, the commit is to be judged anew, so the member joins again.
func (f *fetcher) outOfRange(res *fetch.ResponsePartition, err error) error {
	first, last, ferr := logEnds(f.a.ctx, f.a.g.c.client, f.p.topic, f.p.id, kafka.ReadUncommitted)
	if ferr != nil {
		return ferr
	}
	if f.at < first {
		return f.deleted(first, last, max(first, res.LastStableOffset))
	}
	if f.at > last {
		f.a.g.log().Error("the log ends before the offset that was reached, joining again", "partition", f.p.id, "offset", f.at, "log_end", last)
		f.a.end(errFenced)
	}
	return err
}

// deleted goes on behind records that retention took, as far as it is to. It is
// the same log: marks behind its new beginning still hold.
func (f *fetcher) deleted(first, last, stable int64) error {
	policy := f.a.g.c.opts.OutOfRange
	f.a.g.log().Error("records were deleted before they were worked", "partition", f.p.id, "from", f.at, "to", first, "out_of_range", policy)
	switch policy {
	case RangeStop:
		err := rangeError(f.p.id, f.at, first, last)
		f.a.g.refuse(err)
		return err
	case RangeLatest:
		f.at = last
	case RangeEarliest:
		f.at = first
	}
	f.a.g.c.hub.add(f.p, &fetchedBatch{next: f.at, stable: max(f.at, stable)})
	return nil
}
