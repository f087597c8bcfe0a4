package enqueuecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/sync/semaphore"

	"dispatcher/consumer"
	"dispatcher/job"
)

const (
	// A batch ends where either is reached. While it is written, as much again is
	// read.
	batchRecords = 1000
	batchBytes   = 4 << 20
	// lingerTime is how long a batch that isn't full waits for more, so that
	// lines typed or piped in slowly are on their way soon.
	lingerTime = 200 * time.Millisecond
)

// batchWriter is the part of a producer that enqueue uses.
type batchWriter interface {
	// WriteBatch returns when Kafka has all records, or an error after which
	// some of them may have been written.
	WriteBatch(ctx context.Context, topic string, records []job.Record) error
}

// enqueuer gathers jobs into batches and writes them, one batch after the
// other, so that the written lines are always the first ones of the input.
type enqueuer struct {
	topic   string
	out     batchWriter
	bar     *progressbar.ProgressBar
	written int64
	last    int // the number of the last line that is written, or left out; 0: none

	batch []job.Record
	lines []line // of its records
	bytes int
}

// line is where a job was read.
type line struct {
	number   int
	consumed int64 // bytes of the input up to its end
}

// found is one job, or why there are no more.
type found struct {
	record job.Record
	at     line
	err    error
}

// run reads until the input ends. It reads in a goroutine of its own, since a
// read from a terminal or a pipe can't be interrupted: when ctx ends, run
// leaves that goroutine behind in its read, and the process ends soon.
func (e *enqueuer) run(ctx context.Context, jobs *reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.last = jobs.skipped
	input := make(chan found, batchRecords) // room for a batch, to be read while another is written
	room := semaphore.NewWeighted(batchBytes)
	go readAhead(ctx, jobs, input, room)
	linger := time.NewTicker(lingerTime)
	defer linger.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("enqueue: interrupted; go on with --resume-from %d", e.next())
		case <-linger.C:
			if err := e.flush(ctx); err != nil {
				return err
			}
		case f := <-input:
			room.Release(weight(f))
			switch {
			case errors.Is(f.err, io.EOF):
				return e.flush(ctx)
			case f.err != nil:
				return errors.Join(e.flush(ctx), fmt.Errorf("enqueue: %w; once it is mended, go on with --resume-from %d", f.err, f.at.number))
			}
			if err := e.add(ctx, f); err != nil {
				return err
			}
		}
	}
}

// readAhead reads ahead, as far as the room in bytes allows.
func readAhead(ctx context.Context, jobs *reader, input chan<- found, room *semaphore.Weighted) {
	for {
		rec, err := jobs.next()
		f := found{record: rec, at: line{number: jobs.line, consumed: jobs.consumed}, err: err}
		if room.Acquire(ctx, weight(f)) != nil {
			return
		}
		select {
		case input <- f:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// weight is the room that a job takes. The largest job fills the room alone.
func weight(f found) int64 { return min(int64(jobBytes(&f.record)), batchBytes) }

func jobBytes(r *job.Record) int {
	n := len(r.Value) + len(r.Key)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

func (e *enqueuer) add(ctx context.Context, f found) error {
	e.batch, e.lines = append(e.batch, f.record), append(e.lines, f.at)
	e.bytes += jobBytes(&f.record)
	if len(e.batch) < batchRecords && e.bytes < batchBytes {
		return nil
	}
	return e.flush(ctx)
}

func (e *enqueuer) flush(ctx context.Context) error {
	if len(e.batch) == 0 {
		return nil
	}
	err := e.out.WriteBatch(ctx, e.topic, e.batch)
	if err != nil {
		return e.failed(ctx, err)
	}
	e.written += int64(len(e.batch))
	last := e.lines[len(e.lines)-1]
	e.last = last.number
	_ = e.bar.Set64(last.consumed)
	clear(e.batch)
	e.batch, e.lines, e.bytes = e.batch[:0], e.lines[:0], 0
	return nil
}

// next is the first line that is not written. It may be empty.
func (e *enqueuer) next() int {
	if len(e.lines) > 0 {
		return e.lines[0].number
	}
	return e.last + 1
}

// failed names the lines of the batch that may be written, and where to continue.
func (e *enqueuer) failed(ctx context.Context, err error) error {
	first, last := e.lines[0].number, e.lines[len(e.lines)-1].number
	large, ok := errors.AsType[*consumer.TooLargeError](err)
	switch {
	case ok && large.Written == len(e.batch)-1:
		e.written += int64(large.Written)
		return fmt.Errorf("enqueue: line %d: %w; the lines up to %d but this one have been written: write it in another way, and go on with --resume-from %d",
			e.lines[large.Index].number, err, last, last+1)
	case ok:
		return fmt.Errorf("enqueue: line %d: %w; lines %d to %d may have been written in part: go on with --resume-from %d",
			e.lines[large.Index].number, err, first, last, first)
	case errors.As(err, new(*consumer.UnwrittenError)) && ctx.Err() == nil:
		if e.written == 0 {
			return fmt.Errorf("enqueue: %w", err)
		}
		return fmt.Errorf("enqueue: lines %d and later: %w; go on with --resume-from %d", first, err, first)
	case ctx.Err() != nil:
		err = errors.New("interrupted")
	}
	return fmt.Errorf("enqueue: lines %d to %d, which may have been written in part: %w; go on with --resume-from %d", first, last, err, first)
}
