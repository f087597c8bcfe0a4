package integration

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// node is one process of the fleet.
type node struct {
	number int
	name   string
	admin  string
	cmd    *exec.Cmd
	done   chan error // closed after the process has ended; holds its error
	log    string     // path
	ended  bool
}

// start adds nodes to a scene, and ends them when the test does.
func (s *scene) start(t *testing.T, n int) []*node {
	t.Helper()
	var started []*node
	for range n {
		started = append(started, s.startOne(t))
	}
	return started
}

// settings are the node's own, and go before the scene's.
func (s *scene) startOne(t *testing.T, settings ...string) *node {
	t.Helper()
	n := &node{number: len(s.nodes) + 1, name: fmt.Sprint("node-", len(s.nodes)+1), admin: freeAddr(t), done: make(chan error, 1)}
	args := append([]string{
		"run", "--set", "node=" + n.name, "--set", "admin.listen=" + n.admin,
		"--set", fmt.Sprintf("sender.http.headers.x-node=%d", n.number),
	}, s.common()...)
	for _, set := range settings {
		args = append(args, "--set", set)
	}
	command := append(append([]string{}, s.under...), s.dispatcher)
	command = append(command, args...)
	n.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), command[0], command[1:]...)
	n.log = filepath.Join(t.TempDir(), "log")
	log, err := os.Create(n.log)
	if err != nil {
		t.Fatal(err)
	}
	n.cmd.Stdout, n.cmd.Stderr = log, log
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { n.done <- n.cmd.Wait(); _ = log.Close() }()
	s.nodes = append(s.nodes, n)
	t.Cleanup(func() {
		if !n.ended {
			_ = n.cmd.Process.Kill()
			_ = n.wait(t, 10*time.Second)
		}
		if t.Failed() {
			text, _ := os.ReadFile(n.log)
			t.Logf("node %d said:\n%s", n.number, tail(text, 4000))
		}
	})
	return n
}

// said is what the node has logged.
func (n *node) said(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(n.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func tail(text []byte, n int) []byte { return text[max(0, len(text)-n):] }

func (n *node) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := n.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("node %d: %v: %v", n.number, sig, err)
	}
}

// wait returns the process's error once it has ended.
func (n *node) wait(t *testing.T, within time.Duration) error {
	t.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case err := <-n.done:
		n.ended = true
		return err
	case <-timer.C:
		t.Fatalf("node %d still runs after %v", n.number, within)
		return nil
	}
}

// stop ends nodes with SIGTERM; each must end by itself with status 0.
func stop(t *testing.T, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		n.signal(t, syscall.SIGTERM)
	}
	for _, n := range nodes {
		if err := n.wait(t, 30*time.Second); err != nil {
			t.Errorf("node %d ended with %v after SIGTERM", n.number, err)
		}
	}
}

// running are the nodes that have not ended.
func (s *scene) running() (nodes []*node) {
	for _, n := range s.nodes {
		if !n.ended {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// get asks the node's admin server. The answer's body is to be closed.
func (n *node) get(t *testing.T, path string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.admin+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("node %d: %v", n.number, err)
	}
	return resp
}

// metric scrapes the sum of a counter over its labels.
func (n *node) metric(t *testing.T, name string) float64 {
	t.Helper()
	resp := n.get(t, "/metrics")
	defer func() { _ = resp.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	family := families[name]
	if family == nil {
		t.Fatalf("node %d has no metric %s", n.number, name)
	}
	sum := 0.0
	for _, m := range family.GetMetric() {
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return sum
}

// ready reports the answer of /readyz.
func (n *node) ready(t *testing.T) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.admin+"/readyz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	var text bytes.Buffer
	_, _ = text.ReadFrom(resp.Body)
	return resp.StatusCode, text.String()
}

// cpuTime is what the process has used so far, by /proc.
func (n *node) cpuTime(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	ticks := 0.0
	for _, f := range fields[11:13] { // utime, stime
		v, err := strconv.ParseFloat(f, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += v
	}
	const perSecond = 100 // USER_HZ, fixed by Linux's interface
	return time.Duration(ticks / perSecond * float64(time.Second))
}
