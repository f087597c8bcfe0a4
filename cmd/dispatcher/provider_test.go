package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/cmd/dispatcher/internal/clitest"
)

func TestTheProviderRefusesWhatItCantDo(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ flag, want string }{
		{"--cap=-1", "provider: --cap: -1 is negative; 0 is no bound"},
		{"--window=1h", "--window: 1h0m0s is not between 1ms and 10m"},
		{"--interval=1ms", "--interval: 1ms is below 100ms"},
		{"--fail-rate=1.5", "--fail-rate: 1.5 is not between 0 and 1"},
		{"--fail-status=200", "--fail-status: 200 is not between 300 and 599"},
		{"--latency=-1s", "--latency -1s"},
		{"--listen=nowhere", "provider: listen on nowhere"},
		{"--config=/no/such/file", "provider: -c and --set: the provider reads no settings; use its flags"},
		{"--set=limits.0.cap=5", "provider: -c and --set: the provider reads no settings; use its flags"},
	} {
		clitest.Run(t.Context(), newProviderCommand, "", nil, "provider", row.flag).MustFail(t, row.want)
	}
}

// The provider answers, counts, and ends with its context and without an error.
func TestTheProviderCounts(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	root := cli.NewRoot(func() []string { return nil }, newProviderCommand)
	root.SetArgs([]string{"provider", "--listen=127.0.0.1:0", "--cap=2", "--window=10m", "--fail-rate=1", "--fail-status=429", "--retry-after=2s", "--interval=100ms", "--json"})
	root.SetOut(write)
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx); _ = write.Close() }()

	lines := bufio.NewScanner(read)
	next := func() (said tally) {
		if !lines.Scan() {
			t.Fatalf("got no line: %v", lines.Err())
		}
		if err := json.Unmarshal(lines.Bytes(), &said); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		return said
	}
	first := next()
	if first.Calls != 0 || first.Cap != 2 || first.WindowS != 600 {
		t.Fatalf("got %+v before the first call", first)
	}
	for range 3 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+first.Listen+"/send", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "2" {
			t.Errorf("got %d, Retry-After %q, want 429 and 2", resp.StatusCode, resp.Header.Get("Retry-After"))
		}
	}
	said := first
	for said.Calls < 3 {
		said = next()
	}
	cancel()
	for lines.Scan() { // a writer of a pipe waits for its reader
		if err := json.Unmarshal(lines.Bytes(), &said); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("got %v, want no error after its context ended", err)
	}
	if said.Calls != 3 || said.Failed != 3 || said.Recent != 3 {
		t.Errorf("got %+v, want 3 calls that failed", said)
	}
	// Where this machine stalled, fewer calls could be judged.
	if over := max(0, said.MaxInWindow-2); said.MaxInWindow > 3 || said.OverCount != over {
		t.Errorf("got %d units in the fullest window and %d windows over, want 3 and 1", said.MaxInWindow, said.OverCount)
	}
}
