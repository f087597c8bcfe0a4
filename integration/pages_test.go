package integration

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"dispatcher/internal/containers"
)

// spent is what a fleet has used so far.
type spent struct {
	cpu      time.Duration // of all nodes
	scripts  float64       // calls that a node counts
	commands float64       // that Redis counts, of all kinds
	sent     float64       // calls of the provider
}

func (s spent) less(before spent) spent {
	return spent{s.cpu - before.cpu, s.scripts - before.scripts, s.commands - before.commands, s.sent - before.sent}
}

func (s spent) plus(more spent) spent {
	return spent{s.cpu + more.cpu, s.scripts + more.scripts, s.commands + more.commands, s.sent + more.sent}
}

// Twenty open pages cost a fleet of three nodes that works at 300/s less than 5 % of its CPU, and less than five script calls a
// second. Spans with and without pages take turns.
func TestPagesCostReal(t *testing.T) {
	const limit, pages, turns, span = 300, 20, 4, 10 * time.Second
	w := startServers(t, containers.Kafka)
	s := w.scene(t, limit, 6, 20*time.Millisecond, alike...)
	s.enqueue(t, limit*130)
	s.start(t, 3)
	s.judge.count(t, 5*limit, time.Minute)
	var without, with spent
	for range turns {
		before := s.spent(t)
		pass(span)
		between := s.spent(t)
		closeAll := s.openPages(t, pages)
		pass(time.Second) // each has read what it reads once
		open := s.spent(t)
		pass(span)
		after := s.spent(t)
		closeAll()
		bare, shown := between.less(before), after.less(open)
		t.Logf("%.1f script calls a second without pages, %.1f with; %.1f and %.1f calls of the provider", bare.scripts/span.Seconds(),
			shown.scripts/span.Seconds(), bare.sent/span.Seconds(), shown.sent/span.Seconds())
		without, with = without.plus(bare), with.plus(shown)
	}
	seconds := turns * span.Seconds()
	cpu := (with.cpu.Seconds()/with.sent)/(without.cpu.Seconds()/without.sent) - 1
	scripts, commands := (with.scripts-without.scripts)/seconds, (with.commands-without.commands)/seconds
	t.Logf("CPU of all nodes: %.1f %% of a processor without pages, %.1f %% with %d; %.1f %% more for a call of the provider",
		100*without.cpu.Seconds()/seconds, 100*with.cpu.Seconds()/seconds, pages, 100*cpu)
	t.Logf("script calls a second: %.1f without, %.1f with; commands that Redis counts: %.1f without, %.1f with",
		without.scripts/seconds, with.scripts/seconds, without.commands/seconds, with.commands/seconds)
	figure(t, cpu < 0.05, "20 pages cost %.1f %% more CPU, want less than 5 %%", 100*cpu)
	if scripts >= 5 {
		t.Errorf("20 pages cost %.1f script calls a second, want less than five (%.1f commands)", scripts, commands)
	}
}

func (s *scene) spent(t *testing.T) (sum spent) {
	t.Helper()
	for _, n := range s.nodes {
		sum.cpu += n.cpuTime(t)
		sum.sent += n.metric(t, "dispatcher_sender_calls_total")
	}
	sum.scripts = s.scriptCalls(t)
	sum.commands = s.infoNumber(t, "stats", "total_commands_processed")
	return sum
}

// openPages asks the nodes in turn for what open pages ask for: the stream of events, and once the rest.
func (s *scene) openPages(t *testing.T, n int) (closeAll func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var pages sync.WaitGroup
	for i := range n {
		at := "http://" + s.nodes[i%len(s.nodes)].admin + "/api/v1/"
		pages.Go(func() { reads(ctx, t, at+"events") })
		pages.Go(func() {
			for _, once := range []string{"calls?seconds=900", "limits/provider/history", "redrives", "rules"} {
				reads(ctx, t, at+once)
			}
		})
	}
	return func() { cancel(); pages.Wait() }
}

// reads an answer to its end, or until ctx ends.
func reads(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Error(err)
		return
	}
	resp, err := http.DefaultClient.Do(r)
	if err == nil {
		defer func() { _ = resp.Body.Close() }()
		_, err = io.Copy(io.Discard, resp.Body)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		t.Errorf("%s: %v", url, err)
	case resp.StatusCode != http.StatusOK:
		t.Errorf("%s: got %d", url, resp.StatusCode)
	}
}
