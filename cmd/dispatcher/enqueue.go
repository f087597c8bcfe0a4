package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/semaphore"

	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/internal/node"
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

const enqueueHelp = `Write jobs to Kafka, one for each line of FILE, or of standard input where FILE is - or left out.

With --format lines (the default) a line is the job's value, byte for byte, without its end.
With --key-field NAME each line is a JSON object, and its field NAME (text or number) is the key.

With --format ndjson a line is a JSON object:

  {"value": …, "key": "…", "headers": {"…": "…"}, "id": "…"}

Only "value" is required. If it is text, the job's value is that text; any other JSON is sent as it
stands, as application/json unless a header content-type says otherwise. "key" is what jobs are ordered
by, "id" becomes the header idempotency-key. An unknown field is an error.

A line that a node would refuse as no job is refused here, with its number; --no-check writes it.

Empty lines are skipped. A line that can't be a job ends the work: all lines before it have been written
then, none after it. What else ends it says which lines may have been written, and where to go on with
--resume-from LINE, which counts the lines before but does not write them.`

func newEnqueueCommand(s *settings) *cobra.Command {
	var topic, format, keyField string
	var from int
	var noCheck bool
	cmd := &cobra.Command{
		Use: "enqueue [FILE]", Short: "Write jobs to Kafka, from a file or standard input",
		Long: enqueueHelp, Args: cobra.MaximumNArgs(1),
		Example: "  dispatcher enqueue jobs.txt\n  generate | dispatcher enqueue --format ndjson --topic jobs",
	}
	cmd.Flags().StringVar(&topic, "topic", "", "`TOPIC` to write to (default: the first of kafka.topics or kafka.lanes)")
	cmd.Flags().StringVar(&format, "format", "lines", "what a line is: lines or ndjson")
	cmd.Flags().StringVar(&keyField, "key-field", "", "`NAME` of the JSON field that is the key")
	cmd.Flags().IntVar(&from, "resume-from", 1, "`LINE` to begin with, from 1")
	cmd.Flags().BoolVar(&noCheck, "no-check", false, "write also what a node would refuse, and dead-letter")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if from < 1 {
			return fmt.Errorf("enqueue: --resume-from: %d: lines are counted from 1", from)
		}
		cfg, err := s.load(toManage, nil)
		if err != nil {
			return err
		}
		if topic == "" {
			topic = cfg.Kafka.JobTopics()[0]
		}
		in, size, err := openInput(cmd, args)
		if err != nil {
			return err
		}
		defer func() { _ = in.Close() }()
		jobs, err := newReader(in, format, keyField, cfg.Kafka.MaxJobBytes)
		if err != nil {
			return err
		}
		jobs.skip(from - 1)
		if !noCheck {
			jobs.check = checkOf(cfg, topic)
		}
		out, err := newProducer(cfg, newLogger(cfg, cmd.ErrOrStderr()))
		if err != nil {
			return err
		}
		e := &enqueuer{topic: topic, out: out, bar: newBar(cmd.ErrOrStderr(), size)}
		err = e.run(cmd.Context(), jobs)
		e.bar.end()
		if err = errors.Join(err, out.Close()); err != nil {
			return fmt.Errorf("%w (enqueued %d jobs to %s)", err, e.written, topic)
		}
		return printLine(cmd.OutOrStdout(), fmt.Sprintf("enqueued %d jobs to %s", e.written, topic))
	}
	return cmd
}

// checkOf refuses what a node of this configuration would dead-letter unsent. Of a
// topic that is not in the configuration any lane will do.
func checkOf(cfg configs.Config, topic string) func(job.Record) error {
	return func(rec job.Record) error {
		j, err := job.Decode(rec, job.Limits{MaxBytes: cfg.Kafka.MaxJobBytes})
		if err != nil {
			return err
		}
		return consumer.CheckJob(&j, laneOf(cfg.Kafka, topic, j.Lane))
	}
}

// laneOf is the lane of a topic; of one that the configuration doesn't name, other.
func laneOf(k consumer.Config, topic, other string) string {
	for _, l := range k.Lanes {
		if slices.Contains(l.Topics, topic) {
			return l.Name
		}
	}
	if slices.Contains(k.Topics, topic) {
		return consumer.DefaultLane
	}
	return other
}

func newProducer(cfg configs.Config, log *slog.Logger) (*consumer.Producer, error) {
	conn, err := node.KafkaConnection(cfg, log)
	if err != nil {
		return nil, err
	}
	return consumer.NewProducer(consumer.ProducerOptions{Connection: conn})
}

// openInput opens the file, or takes standard input. The size is -1 where it
// can't be known.
func openInput(cmd *cobra.Command, args []string) (io.ReadCloser, int64, error) {
	if len(args) == 0 || args[0] == "-" {
		if isTerminal(cmd.InOrStdin()) {
			cmd.PrintErrln("reading jobs from the terminal, one a line; end with Ctrl-D")
		}
		return io.NopCloser(cmd.InOrStdin()), -1, nil
	}
	f, err := os.Open(args[0])
	if err != nil {
		return nil, 0, fmt.Errorf("enqueue: %w", err)
	}
	info, err := f.Stat()
	if err != nil || info.IsDir() {
		return nil, 0, errors.Join(fmt.Errorf("enqueue: %s can't be read as a file", args[0]), err, f.Close())
	}
	if !info.Mode().IsRegular() {
		return f, -1, nil
	}
	return f, info.Size(), nil
}

// batchWriter is what enqueue needs of a producer.
type batchWriter interface {
	// WriteBatch returns when Kafka has all records, or an error after which
	// some of them may have been written.
	WriteBatch(ctx context.Context, topic string, records []job.Record) error
}

// enqueuer gathers jobs into batches and writes them, one batch after the
// other, so that what is written is always a beginning of what was read.
type enqueuer struct {
	topic   string
	out     batchWriter
	bar     bar
	written int64

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
	input := make(chan found, batchRecords) // room for a batch, to be read while another is written
	room := semaphore.NewWeighted(batchBytes)
	go feed(ctx, jobs, input, room)
	linger := time.NewTicker(lingerTime)
	defer linger.Stop()
	for {
		select {
		case <-ctx.Done():
			return errors.New("enqueue: interrupted")
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

// feed reads ahead, as far as there is room in bytes.
func feed(ctx context.Context, jobs *reader, input chan<- found, room *semaphore.Weighted) {
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

// weight is what a job takes of the room, which the largest one fills alone.
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
	e.bar.at(e.lines[len(e.lines)-1].consumed)
	clear(e.batch)
	e.batch, e.lines, e.bytes = e.batch[:0], e.lines[:0], 0
	return nil
}

// failed says which lines of the batch are written, and how to go on.
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
