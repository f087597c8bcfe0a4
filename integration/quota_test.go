package integration

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"
	"time"

	"dispatcher/internal/containers"
)

const (
	quotaCap  = 2000
	quotaJobs = 4500
)

const quotaLimits = `
limits:
  - {name: account, cap: 300, window: 1s}
  - {name: quota, cap: 2000, calendar: minute}
`

// Three nodes have a quota of 2,000 a minute of the calendar, and 4,500 jobs at up to 300 a
// second. They begin so that the minute ends in the middle of the run. Redis is flushed before
// that. The provider counts each minute by its own clock.
func TestQuotaReal(t *testing.T) {
	w := startServers(t, containers.Kafka)
	s := w.scene(t, 300, 12, 20*time.Millisecond)
	s.configure(t, quotaLimits)
	s.enqueueLines(t, quotaLines())
	untilSecond(t, 40)
	s.start(t, 3)
	s.judge.count(t, quotaCap/4, time.Minute)
	if err := s.rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.settled(t, 4*time.Minute)
	said := ""
	for _, n := range s.nodes {
		said += n.said(t)
	}
	stop(t, s.nodes...)
	once(t, s.judge.report(t, 300), quotaJobs)
	epoch, err := strconv.ParseInt(string(s.judge.ask(t, "GET", "/epoch", "")), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	minutes := map[string]int{}
	for _, a := range s.judge.arrivals(t) {
		minutes[time.Unix(0, epoch).Add(a.At).UTC().Format("15:04")]++
	}
	t.Logf("calls by minute: %v", minutes)
	full := 0
	for minute, calls := range minutes {
		if calls > quotaCap {
			t.Errorf("got %d calls in the minute %s, and %d may be", calls, minute, quotaCap)
		}
		if calls >= quotaCap*99/100 {
			full++
		}
	}
	figure(t, full == 2, "got %d minutes with %d calls at least, want two of the three: %v", full, quotaCap*99/100, minutes)
	if !bytes.Contains([]byte(said), []byte("quota is nearly used up")) {
		t.Error("no node warned that the quota was nearly used up")
	}
}

// untilSecond waits until a minute is so many seconds old.
func untilSecond(t *testing.T, second int) {
	t.Helper()
	eventually(t, time.Minute+time.Second, func() bool { return time.Now().Second() == second }, func() string { return "the clock stands still" })
}

func quotaLines() *bytes.Buffer {
	var lines bytes.Buffer
	for i := range quotaJobs {
		fmt.Fprintf(&lines, `{"key":"k%d","id":"job-%d","value":"hello"}`+"\n", i, i)
	}
	return &lines
}
