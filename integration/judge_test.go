package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dispatcher/internal/provider"
)

// judge is the provider in its own process.
type judge struct {
	addr, control string
	ca            string   // PEM; empty: plain HTTP
	changes       []string // for the report: from when on which cap holds
	end           func()   // of its process, which wakes each millisecond; at the end of the test at the latest
}

func (w *servers) startJudge(t *testing.T, latency time.Duration, args ...string) *judge {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), w.provider, append(args, "-latency", latency.String())...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The judge must not be held up by those it judges.
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, cmd.Process.Pid, -10); err != nil {
		t.Logf("the judge runs at ordinary priority: %v", err)
	}
	end := sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	t.Cleanup(end)
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var where struct{ Provider, Control, CA string }
	if err == nil {
		err = json.Unmarshal(line, &where)
	}
	if err != nil {
		t.Fatalf("the provider's addresses: %v", err)
	}
	return &judge{addr: where.Provider, control: where.Control, ca: where.CA, end: end}
}

func (j *judge) ask(t *testing.T, method, path, body string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+j.control+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %v: %s", method, path, resp.StatusCode, err, text)
	}
	return text
}

func (j *judge) post(t *testing.T, path, body string) {
	t.Helper()
	j.ask(t, http.MethodPost, path, body)
}

// changed notes that another cap holds from now on.
func (j *judge) changed(limit int) {
	j.changes = append(j.changes, fmt.Sprintf("%d:%d", time.Now().UnixNano(), limit))
}

func (j *judge) report(t *testing.T, limit int) provider.Report {
	t.Helper()
	return j.reportOver(t, limit, time.Second)
}

// reportOver judges windows of another length.
func (j *judge) reportOver(t *testing.T, limit int, window time.Duration) provider.Report {
	t.Helper()
	return j.reportBy(t, limit, window, 0)
}

// reportBy judges the calls of each value of a part of the key apart.
func (j *judge) reportBy(t *testing.T, limit int, window time.Duration, part int) provider.Report {
	t.Helper()
	q := url.Values{"cap": {fmt.Sprint(limit)}, "window": {window.String()}, "part": {fmt.Sprint(part)}, "change": j.changes}
	var r provider.Report
	if err := json.Unmarshal(j.ask(t, http.MethodGet, "/report?"+q.Encode(), ""), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func (j *judge) arrivals(t *testing.T) []provider.Arrival {
	t.Helper()
	all, err := provider.ReadArrivals(strings.NewReader(string(j.ask(t, http.MethodGet, "/arrivals", ""))))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// count waits until the provider has seen n calls.
func (j *judge) count(t *testing.T, n int, within time.Duration) {
	t.Helper()
	got := 0
	eventually(t, within, func() bool {
		got = j.report(t, 1).Sent
		return got >= n
	}, func() string { return fmt.Sprintf("%d calls came, want %d", got, n) })
}

// call makes one call of the provider, as this node; 0: none. It returns the status.
func (j *judge) call(ctx context.Context, client *http.Client, key string, value []byte, node uint8) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+j.addr+"/send", bytes.NewReader(value))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Idempotency-Key", key)
	if node != 0 {
		req.Header.Set(provider.NodeHeader, strconv.Itoa(int(node)))
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
