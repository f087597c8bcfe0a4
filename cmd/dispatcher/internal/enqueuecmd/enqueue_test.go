package enqueuecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/cmd/dispatcher/internal/clitest"
	"dispatcher/job"
)

// sink keeps what is written, and fails from its failAt-th batch on.
type sink struct {
	batches [][]job.Record
	failAt  int // 0: never
}

func (s *sink) WriteBatch(_ context.Context, _ string, records []job.Record) error {
	if s.failAt > 0 && len(s.batches)+1 >= s.failAt {
		return errors.New("broker away")
	}
	s.batches = append(s.batches, append([]job.Record(nil), records...))
	return nil
}

func (s *sink) count() (n int) {
	for _, b := range s.batches {
		n += len(b)
	}
	return n
}

func numbered(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintln(&text, i)
	}
	return text.String()
}

func enqueue(t *testing.T, ctx context.Context, in io.Reader, out *sink) (*enqueuer, error) {
	t.Helper()
	jobs, err := newReader(in, "lines", "", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	e := &enqueuer{topic: "jobs", out: out, bar: cli.Bar(io.Discard, "", -1)}
	return e, e.run(ctx, jobs)
}

func TestBatchesKeepTheOrder(t *testing.T) {
	t.Parallel()
	out := &sink{}
	e, err := enqueue(t, t.Context(), strings.NewReader(numbered(2500)), out)
	if err != nil || e.written != 2500 || out.count() != 2500 || len(out.batches) < 3 {
		t.Fatalf("got %v, %d written in %d batches", err, e.written, len(out.batches))
	}
	next := 0
	for _, batch := range out.batches {
		for _, rec := range batch {
			if want := fmt.Sprint(next); string(rec.Value) != want {
				t.Fatalf("got %s, want %s", rec.Value, want)
			}
			next++
		}
	}
}

func TestLargeJobsMakeSmallBatches(t *testing.T) {
	t.Parallel()
	out := &sink{}
	input := strings.Repeat(strings.Repeat("x", 1<<20)+"\n", 9)
	if _, err := enqueue(t, t.Context(), strings.NewReader(input), out); err != nil {
		t.Fatal(err)
	}
	for i, batch := range out.batches {
		if len(batch) > batchBytes>>20 {
			t.Errorf("batch %d: got %d MiB, want at most %d bytes", i, len(batch), batchBytes)
		}
	}
}

// While a batch is written no more than another one is read, in bytes as well.
func TestReadingAheadIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := strings.NewReader(strings.Repeat(strings.Repeat("x", 1<<20)+"\n", 64))
		out := &blocked{written: make(chan struct{})}
		jobs, err := newReader(in, "lines", "", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		e := &enqueuer{topic: "jobs", out: out, bar: cli.Bar(io.Discard, "", -1)}
		go func() { ended <- e.run(t.Context(), jobs) }()
		synctest.Wait()
		if read := 64<<20 - in.Len(); read < batchBytes || read > 2*batchBytes+3<<20 {
			t.Errorf("got %d bytes read while the first batch is written, want at most two batches of %d and some", read, batchBytes)
		}
		close(out.written)
		if err := <-ended; err != nil || e.written != 64 {
			t.Errorf("got %v and %d written, want 64", err, e.written)
		}
	})
}

// blocked writes nothing until it may.
type blocked struct{ written chan struct{} }

func (b *blocked) WriteBatch(context.Context, string, []job.Record) error {
	<-b.written
	return nil
}

// A value that its topic does not take is named by its line; the others of its
// batch are written, and the next run can go on behind them.
func TestAValueTooLargeNamesItsLine(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "jobs"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	large := make([]byte, 1<<20-10)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range large {
		large[i] = '!' + byte(r.IntN(90)) // hardly compresses
	}
	with := func(input string, args ...string) clitest.Outcome {
		return clitest.Run(t.Context(), New, input, []string{"DISPATCHER_KAFKA_BROKERS=" + cluster.ListenAddrs()[0]}, append([]string{"enqueue"}, args...)...)
	}
	input := "1\n2\n" + string(large) + "\n4\n5\n"
	got := with(input)
	got.MustFail(t, "line 3: topic jobs takes no record of")
	got.MustFail(t, "the lines up to 5 but this one have been written")
	got.MustFail(t, "--resume-from 6 (enqueued 4 jobs to jobs)")
	with(input+"6\n7\n", "--resume-from", "6").MustPrint(t, "enqueued 2 jobs to jobs\n")
	with("a\n", "--resume-from", "0").MustFail(t, "--resume-from: 0")
	if got := clitest.LastOffset(t, cluster.ListenAddrs()[0], "jobs"); got != 6 {
		t.Errorf("got %d records, want 6", got)
	}
}

// What was written is a beginning of the input, and the error says how to go on.
func TestABadLineEndsTheWorkBehindTheGoodOnes(t *testing.T) {
	t.Parallel()
	out := &sink{}
	e, err := enqueue(t, t.Context(), strings.NewReader(numbered(7)+strings.Repeat("x", 2<<20)+"\nmore\n"), out)
	if err == nil || !strings.Contains(err.Error(), "line 8: has more than") || e.written != 7 || out.count() != 7 {
		t.Errorf("got %v, %d written", err, e.written)
	}
}

func TestAFailedBatchSaysWhichLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // where no time passes while there is work, and so no batch goes off early
		e, err := enqueue(t, t.Context(), strings.NewReader(numbered(2500)), &sink{failAt: 3})
		if err == nil || !strings.Contains(err.Error(), "lines 2001 to 2500, which may have been written in part: broker away") || e.written != 2000 {
			t.Errorf("got %v, %d written", err, e.written)
		}
	})
}

// pipe yields a line every second, as somebody types.
type pipe struct{ left int }

func (p *pipe) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	p.left--
	time.Sleep(time.Second)
	return copy(b, "line\n"), nil
}

func TestSlowLinesAreNotKeptWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &sink{}
		if _, err := enqueue(t, t.Context(), &pipe{left: 3}, out); err != nil || len(out.batches) != 3 {
			t.Errorf("got %v, %d batches, want one for each line", err, len(out.batches))
		}
	})
}

// Jobs are not lines: empty lines count too. So an interrupted command names the line to go on with.
func TestInterruptedWhileItReads(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		skipped int
		flushed string // what is written when the rest is read
		rest    string
		want    string
	}{
		{"before the first line", 0, "", "", "1"},
		{"before the first line that was asked for", 5, "", "", "6"},
		{"before a batch is full", 2, "", "\n\n\na\n", "4"},
		{"between two batches", 0, "a\n\n\n\nb\n", "\n\n", "6"},
		{"with lines that wait", 0, "a\n\n\n\nb\n", "\n\nc\nd\n", "8"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				in, feeder := io.Pipe() // a read from it can't be interrupted
				defer func() { _ = feeder.Close() }()
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					_, _ = io.WriteString(feeder, row.flushed)
					time.Sleep(lingerTime * 3 / 2)
					_, _ = io.WriteString(feeder, row.rest)
					synctest.Wait()
					cancel()
				}()
				jobs, err := newReader(in, "lines", "", 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				jobs.skipped = row.skipped
				e := &enqueuer{topic: "jobs", out: &sink{}, bar: cli.Bar(io.Discard, "", -1)}
				if err := e.run(ctx, jobs); err == nil || err.Error() != "enqueue: interrupted; go on with --resume-from "+row.want {
					t.Errorf("got %v, want that it was interrupted before line %s", err, row.want)
				}
			})
		})
	}
}

func TestEnqueueWritesToKafka(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "jobs", "other"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	broker := cluster.ListenAddrs()[0]
	with := func(input string, args ...string) clitest.Outcome {
		return clitest.Run(t.Context(), New, input, []string{"DISPATCHER_KAFKA_BROKERS=" + broker}, append([]string{"enqueue"}, args...)...)
	}
	file := clitest.WriteFile(t, "jobs.txt", numbered(1500))
	with("", file).MustPrint(t, "enqueued 1500 jobs to jobs\n")
	with("a\nb\n").MustPrint(t, "enqueued 2 jobs to jobs\n")
	with(`{"value":"c","key":"k","id":"7"}`, "-", "--format", "ndjson", "--topic", "other").MustPrint(t, "enqueued 1 jobs to other\n")

	with("a\nb\n", "--json", "--topic", "other").MustPrint(t, `{"topic":"other","enqueued":2}`+"\n")
	failed := with("a\n", "--json", "--topic", "missing")
	failed.MustFail(t, "topic missing does not exist")
	if want := `{"topic":"missing","enqueued":0,"error":"enqueue: nothing was written: topic missing`; !strings.HasPrefix(failed.Out, want) {
		t.Errorf("got %s, want it to begin with %s", failed.Out, want)
	}

	with("a\n", "--topic", "missing").MustFail(t, "enqueue: nothing was written: topic missing does not exist: create it first, or correct the name (enqueued 0 jobs to missing)")
	for header, want := range map[string]string{
		`"cost":"0"`: "line 1: cost", `"not-after":"tomorrow"`: "line 1: not-after", `"lane":"otp"`: "line 1: lane: is not the lane of the job's topic",
		`"not-before":"2030-01-02T00:00:00Z","not-after":"2030-01-01T00:00:00Z"`: "line 1: not-after: lies before not-before",
		`"not-after":"2020-01-01T00:00:00Z"`:                                     "line 1: not-after: has passed",
		`"not-before":"2999-01-01T00:00:00Z"`:                                    "line 1: not-before: is more than 1m0s ahead; kafka.retry_topics would allow it",
	} {
		with(`{"value":"a","headers":{`+header+`}}`, "--format", "ndjson").MustFail(t, want)
	}
	with(`{"value":"a","headers":{"cost":"0"}}`, "--format", "ndjson", "--no-check", "--topic", "other").MustPrint(t, "enqueued 1 jobs to other\n")
	with(`{"value":"a","headers":{"cost":"0.0075"}}`, "--format", "ndjson", "--topic", "other", "--set", "cost=2").MustPrint(t, "enqueued 1 jobs to other\n")
	with(`{"value":"a","headers":{"not-before":"2999-01-01T00:00:00Z"}}`, "--format", "ndjson", "--topic", "other", "--set", "kafka.retry_topics=1m", "--set", "kafka.order=none").MustPrint(t, "enqueued 1 jobs to other\n")
	with(`{"value":"a","headers":{"not-after":"2020-01-01T00:00:00Z"}}`, "--format", "ndjson", "--no-check", "--topic", "other").MustPrint(t, "enqueued 1 jobs to other\n")
	with("a\n", "--format", "csv").MustFail(t, "csv")
	with("a\n", "--topic", "").MustFail(t, `--topic: "": must not be empty`)
	with("a\n", "--key-field", "").MustFail(t, `--key-field: "": must not be empty`)
	with("", "/no/such/file").MustFail(t, "/no/such/file")
	with("", t.TempDir()).MustFail(t, "can't be read as a file")
	with("a\n{", "--key-field", "to").MustFail(t, "line 1: is no JSON object")
	with("ok\n"+strings.Repeat("x", 2<<20)).MustFail(t, "(enqueued 1 jobs to jobs)")

	if got := clitest.LastOffset(t, broker, "jobs"); got != 1503 {
		t.Errorf("got %d records in jobs, want 1503", got)
	}
	if got := clitest.LastOffset(t, broker, "other"); got != 7 {
		t.Errorf("got %d records in other, want 7", got)
	}
}
