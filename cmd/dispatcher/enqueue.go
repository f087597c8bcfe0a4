package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/internal/dispatch"
	"dispatcher/job"
)

const (
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

Empty lines are skipped. A line that can't be a job ends the work: all lines before it have been written
then, none after it.`

func newEnqueueCommand(s *settings) *cobra.Command {
	var topic, format, keyField string
	cmd := &cobra.Command{
		Use: "enqueue [FILE]", Short: "Write jobs to Kafka, from a file or standard input",
		Long: enqueueHelp, Args: cobra.MaximumNArgs(1),
		Example: "  dispatcher enqueue jobs.txt\n  generate | dispatcher enqueue --format ndjson --topic jobs",
	}
	cmd.Flags().StringVar(&topic, "topic", "", "`TOPIC` to write to (default: the first of kafka.topics or kafka.lanes)")
	cmd.Flags().StringVar(&format, "format", "lines", "what a line is: lines or ndjson")
	cmd.Flags().StringVar(&keyField, "key-field", "", "`NAME` of the JSON field that is the key")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
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

// newProducer lets a batch grow only where jobs are allowed to be larger than
// what a broker takes by default.
func newProducer(cfg configs.Config, log *slog.Logger) (*consumer.Producer, error) {
	conn, err := dispatch.KafkaConnection(cfg, log)
	if err != nil {
		return nil, err
	}
	o := consumer.ProducerOptions{Connection: conn}
	if cfg.Kafka.MaxJobBytes > job.DefaultMaxBytes {
		o.BatchBytes = cfg.Kafka.MaxJobBytes + envelopeRoom
	}
	return consumer.NewProducer(o)
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

	batch       []job.Record
	bytes       int
	first, last line // of the batch
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
	go feed(ctx, jobs, input)
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
			switch {
			case errors.Is(f.err, io.EOF):
				return e.flush(ctx)
			case f.err != nil:
				return errors.Join(e.flush(ctx), fmt.Errorf("enqueue: %w", f.err))
			}
			if err := e.add(ctx, f); err != nil {
				return err
			}
		}
	}
}

func feed(ctx context.Context, jobs *reader, input chan<- found) {
	for {
		rec, err := jobs.next()
		select {
		case input <- found{record: rec, at: line{number: jobs.line, consumed: jobs.consumed}, err: err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (e *enqueuer) add(ctx context.Context, f found) error {
	if len(e.batch) == 0 {
		e.first = f.at
	}
	e.last = f.at
	e.batch = append(e.batch, f.record)
	e.bytes += len(f.record.Value) + len(f.record.Key)
	if len(e.batch) < batchRecords && e.bytes < batchBytes {
		return nil
	}
	return e.flush(ctx)
}

func (e *enqueuer) flush(ctx context.Context) error {
	if len(e.batch) == 0 {
		return nil
	}
	if err := e.out.WriteBatch(ctx, e.topic, e.batch); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		return fmt.Errorf("enqueue: lines %d to %d, which may have been written in part: %w", e.first.number, e.last.number, err)
	}
	e.written += int64(len(e.batch))
	e.batch, e.bytes = e.batch[:0], 0
	e.bar.at(e.last.consumed)
	return nil
}
