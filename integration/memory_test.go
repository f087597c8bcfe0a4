package integration

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// memory: a node with a backlog that it may not touch takes what it needs at
// once, and no more however long the pause is.
func (w *servers) memory(t *testing.T) {
	t.Helper()
	const jobs, most = 1_000_000, 256 << 20
	s := w.scene(t, faultCap, 12, 0)
	n := s.startOne(t)
	s.isReady(t, n)
	s.mustCommand(t, "limit", "pause", "provider", "--wait")
	stop(t, n)
	took := s.fill(t, jobs)
	n = s.startOne(t)
	s.isReady(t, n)
	var rss []int
	for _, d := range []time.Duration{10 * time.Second, 10 * time.Second, 10 * time.Second} {
		pass(d)
		rss = append(rss, n.memory(t))
	}
	lag, joined := n.metric(t, "dispatcher_consumer_lag_records"), n.metric(t, "dispatcher_consumer_rebalances_total")
	stop(t, n)
	if r := s.judge.report(t, s.cap); r.Sent != 0 || lag != jobs || joined != 1 {
		t.Errorf("got %d calls, a lag of %v and %v assignments in the pause, want none, %d and 1", r.Sent, lag, joined, jobs)
	}
	t.Logf("%d jobs written in %v; the node that has them before it, the limit paused: %d, %d and %d MiB after 10, 20 and 30 s",
		jobs, took.Round(time.Millisecond), rss[0]>>20, rss[1]>>20, rss[2]>>20)
	figure(t, rss[2] <= rss[0]+rss[0]/10, "got %d MiB after 30 s and %d after 10, want it flat", rss[2]>>20, rss[0]>>20)
	figure(t, rss[2] <= most, "got %d MiB, want at most %d", rss[2]>>20, most>>20)
}

func (s *scene) isReady(t *testing.T, n *node) {
	t.Helper()
	eventually(t, time.Minute, func() bool { code, _ := n.ready(t); return code == 200 },
		func() string { _, why := n.ready(t); return "the node is not ready: " + why })
}

// fill writes jobs of 200 bytes, and says how long that took.
func (s *scene) fill(t *testing.T, jobs int) time.Duration {
	t.Helper()
	cl := s.producer(t)
	value := bytes.Repeat([]byte("x"), 200)
	begun := time.Now()
	failed := make(chan error, 1) // the first one is enough
	for i := range jobs {
		r := &kgo.Record{Topic: s.topic, Key: strconv.AppendInt([]byte("k"), int64(i), 10), Value: value}
		cl.Produce(t.Context(), r, func(_ *kgo.Record, err error) {
			select {
			case failed <- err:
			default:
			}
		})
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if records, _ := s.backlog(t); records != int64(jobs) {
		t.Fatalf("got %d records written, want %d", records, jobs)
	}
	return time.Since(begun)
}

// memory is what the process holds, in bytes, by /proc.
func (n *node) memory(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", n.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(string(bytes.Fields(text)[1])) // size, resident, …
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
