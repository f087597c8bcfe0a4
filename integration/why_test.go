package integration

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"dispatcher/internal/containers"
)

const whyLimits = `
limits:
  - {name: account, cap: 300, window: 1s}
  - {name: recipient, key: job.json.to, when: 'job.json.to == "anna"', cap: 1, window: 1m}
`

// Any node holds a job, and an operator who knows its id alone learns what it waits for, and from whom.
func TestWhyReal(t *testing.T) {
	w := startServers(t, containers.Kafka)
	s := w.scene(t, 300, 6, 20*time.Millisecond)
	s.configure(t, whyLimits)
	s.start(t, 3)
	s.enqueue(t, 300)
	s.judge.count(t, 300, time.Minute) // all nodes work
	var lines bytes.Buffer
	for _, id := range []string{"first", "second"} {
		fmt.Fprintf(&lines, `{"key":"anna","id":%q,"value":{"to":"anna"}}`+"\n", id)
	}
	fmt.Fprintf(&lines, `{"key":"late","id":"late","headers":{"not-before":%q},"value":{}}`+"\n", time.Now().Add(50*time.Second).UTC().Format(time.RFC3339))
	s.enqueueLines(t, &lines)
	s.explains(t, "first", "waits for a limit: the limit recipient does not let it pass until 20")
	s.explains(t, "second", "waits for the order: kafka.order has offset ")
	s.explains(t, "late", "waits for its time: it is not due until 20")
	s.explains(t, "recipient", "limit recipient: 1 job waits for it")
	s.explains(t, s.topic+"/0/0", "is settled")

	t.Log(s.mustCommand(t, "limit", "pause", "account", "--for", "10m", "--why", "a test", "--wait"))
	lines.Reset()
	fmt.Fprintln(&lines, `{"key":"k","id":"ready","value":{}}`)
	s.enqueueLines(t, &lines)
	s.explains(t, "ready", "waits for an operator: paused by ")
	s.explains(t, "account", "for it; on the node", "paused by ", "(a test) until 20")
	if out, err := s.command(t, "why", "nobody"); err == nil || !strings.Contains(out, "none of 3 nodes holds the job nobody") {
		t.Errorf("got %v and %q, want that no node holds the job", err, out)
	}

	// A node that stands still is named, and costs two seconds.
	s.nodes[1].signal(t, syscall.SIGSTOP)
	defer s.nodes[1].signal(t, syscall.SIGCONT)
	began := time.Now()
	s.explains(t, "recipient", "did not answer: node-2")
	t.Logf("with a node that stands still the answer took %s", time.Since(began).Round(time.Millisecond))
}

// explains asks until the answer holds these texts.
func (s *scene) explains(t *testing.T, what string, want ...string) {
	t.Helper()
	var out string
	eventually(t, 30*time.Second, func() bool {
		var err error
		out, err = s.command(t, "why", what)
		for _, one := range want {
			if err != nil || !strings.Contains(out, one) {
				return false
			}
		}
		return true
	}, func() string { return fmt.Sprintf("why %s: got %q, want %q", what, out, want) })
	t.Logf("why %s: %s", what, strings.TrimSpace(out))
}
