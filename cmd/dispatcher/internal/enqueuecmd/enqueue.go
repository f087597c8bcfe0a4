package enqueuecmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/job"
)

const enqueueHelp = `Write jobs to Kafka, one for each line of FILE. Without FILE, or if FILE is -, read standard input.

With --format lines (the default) a line, without its end, is the job's value.
With --key-field NAME each line is a JSON object, and its field NAME (text or number) is the job's key.

With --format ndjson a line is a JSON object:

  {"value": …, "key": "…", "headers": {"…": "…"}, "id": "…"}

Only "value" is required. If it is text, the text is the job's value. Any other JSON is sent as it is, with
content-type application/json unless the headers hold another. Jobs are ordered by "key". "id" becomes the
header idempotency-key. An unknown field is an error.

JSON must be UTF-8, and its texts whole characters: a line with half of a surrogate pair is an error. A value that is
no text may hold such.

Empty lines are skipped. A line that a node would refuse ends the command with the number of the line; all
lines before it are written, and none after it. --no-check writes such lines. A node also refuses a not-after that has
passed and, without kafka.retry_topics, a not-before that is more than a minute ahead.

If writing fails or is interrupted, the error names the lines that may have been written, and the LINE to continue
with: --resume-from LINE skips the lines before it.`

// New is the command.
func New(s *cli.Settings) *cobra.Command {
	var topic, format, keyField string
	var from int
	var noCheck, asJSON bool
	cmd := &cobra.Command{
		Use: "enqueue [FILE]", Short: "Write jobs to Kafka, from a file or standard input",
		Long: enqueueHelp, Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault), // a file
		Example:           "  dispatcher enqueue jobs.txt\n  generate | dispatcher enqueue --format ndjson --topic jobs",
	}
	cmd.Flags().StringVar(&topic, "topic", "", "`TOPIC` to write to (default: the first of kafka.topics or kafka.lanes)")
	cmd.Flags().StringVar(&format, "format", "lines", "format of a line: lines or ndjson")
	cmd.Flags().StringVar(&keyField, "key-field", "", "`NAME` of the JSON field that is the key")
	cmd.Flags().IntVar(&from, "resume-from", 1, "`LINE` to begin with, from 1")
	cmd.Flags().BoolVar(&noCheck, "no-check", false, "also write lines that a node would refuse, and send to the dead letters")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the outcome as JSON")
	cli.Choices(cmd, "format", "lines", "ndjson")
	s.JobTopics(cmd, "topic")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if from < 1 {
			return fmt.Errorf("enqueue: --resume-from: %d: lines are counted from 1", from)
		}
		if err := cli.Filled(cmd.Flags(), "topic", "key-field"); err != nil {
			return err
		}
		cfg, conn, err := s.Kafka(cmd)
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
		jobs.skipped = from - 1
		if !noCheck {
			jobs.check = checkOf(cfg, topic)
		}
		out, err := consumer.NewProducer(consumer.ProducerOptions{Connection: conn})
		if err != nil {
			return err
		}
		e := &enqueuer{topic: topic, out: out, bar: cli.Bar(cmd.ErrOrStderr(), "enqueue", size, progressbar.OptionShowBytes(true))}
		err = e.run(cmd.Context(), jobs)
		_ = e.bar.Clear()
		if err = errors.Join(err, out.Close()); err != nil {
			err = fmt.Errorf("%w (enqueued %d jobs to %s)", err, e.written, topic)
		}
		return report(cmd.OutOrStdout(), e, err, asJSON)
	}
	return cmd
}

// report prints what the command did, and returns its error.
func report(w io.Writer, e *enqueuer, err error, asJSON bool) error {
	switch {
	case asJSON:
		return errors.Join(cli.PrintJSON(w, outcomeOf(e, err)), err)
	case err != nil:
		return err
	}
	return cli.PrintLine(w, fmt.Sprintf("enqueued %d jobs to %s", e.written, e.topic))
}

// outcome is what the command did, for programs.
type outcome struct {
	Topic    string `json:"topic"`
	Enqueued int64  `json:"enqueued"`
	Error    string `json:"error,omitempty"`
}

func outcomeOf(e *enqueuer, err error) outcome {
	o := outcome{Topic: e.topic, Enqueued: e.written}
	if err != nil {
		o.Error = err.Error()
	}
	return o
}

// checkOf returns a check that refuses a job which a node of this configuration would
// send to the dead letters. On a topic that is not in the configuration any lane is
// accepted.
func checkOf(cfg configs.Config, topic string) func(job.Record) error {
	return func(rec job.Record) error {
		j, err := job.Decode(rec, job.Limits{MaxBytes: cfg.Kafka.MaxJobBytes, IgnoreCost: cfg.Cost != ""})
		if err != nil {
			return err
		}
		return consumer.CheckJob(&j, laneOf(cfg.Kafka, topic, j.Lane), cfg.Kafka.RetryTopics, time.Now())
	}
}

// laneOf is the lane of a topic, or other if the configuration doesn't name the topic.
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

// openInput opens the file, or takes standard input. The size is -1 where it
// can't be known.
func openInput(cmd *cobra.Command, args []string) (io.ReadCloser, int64, error) {
	if len(args) == 0 || args[0] == "-" {
		if cli.IsTerminal(cmd.InOrStdin()) {
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
