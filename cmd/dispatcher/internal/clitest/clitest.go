package clitest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
)

// Outcome is what a command line printed and how it ended.
type Outcome struct {
	Out, ErrOut string
	Err         error
}

// Run runs a command line that has this command alone, as RunRoot does.
func Run(ctx context.Context, command func(*cli.Settings) *cobra.Command, input string, environ []string, args ...string) Outcome {
	root := func(environ func() []string) *cobra.Command { return cli.NewRoot(environ, command) }
	return RunRoot(ctx, root, input, environ, args...)
}

// RunRoot runs a command line with an environment and a standard input of its own.
func RunRoot(ctx context.Context, root func(environ func() []string) *cobra.Command, input string, environ []string, args ...string) Outcome {
	var out, errOut bytes.Buffer
	cmd := root(func() []string { return environ })
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(input))
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	err := cmd.ExecuteContext(ctx)
	return Outcome{out.String(), errOut.String(), err}
}

// MustFail wants an error that holds the text.
func (o Outcome) MustFail(t *testing.T, want string) {
	t.Helper()
	if o.Err == nil || !strings.Contains(o.Err.Error(), want) {
		t.Errorf("got %v\nwant an error with %q", o.Err, want)
	}
}

// MustPrint wants success, and each of the texts in what was printed.
func (o Outcome) MustPrint(t *testing.T, want ...string) {
	t.Helper()
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	for _, w := range want {
		if !strings.Contains(o.Out, w) {
			t.Errorf("got\n%s\nwant it to hold %q", o.Out, w)
		}
	}
}

// Await waits until something is done, and fails the test after so long.
func Await(t *testing.T, within time.Duration, what string, done func() bool) {
	t.Helper()
	deadline, again := time.NewTimer(within), time.NewTicker(10*time.Millisecond)
	defer deadline.Stop()
	defer again.Stop()
	for !done() {
		select {
		case <-deadline.C:
			t.Fatalf("not within %v: %s", within, what)
		case <-again.C:
		}
	}
}

// WriteFile writes a file of the test, and returns its path.
func WriteFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// LastOffset is how many records the one partition of a topic has had.
func LastOffset(t *testing.T, broker, topic string) int64 {
	t.Helper()
	conn, err := kafka.DialLeader(t.Context(), "tcp", broker, topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	n, err := conn.ReadLastOffset()
	if err != nil {
		t.Fatal(err)
	}
	return n
}
