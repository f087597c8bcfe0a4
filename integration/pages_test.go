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
	cpu     time.Duration // of all nodes
	scripts float64       // calls that a node counts
	sent    float64       // calls of the provider
}

func (s spent) less(before spent) spent {
	return spent{s.cpu - before.cpu, s.scripts - before.scripts, s.sent - before.sent}
}

func (s spent) plus(more spent) spent {
	return spent{s.cpu + more.cpu, s.scripts + more.scripts, s.sent + more.sent}
}

// Twenty open pages cost a fleet of three nodes that works at 300/s less than 5 % of its CPU, and less than five script calls a
// second. Two such fleets work at the same time, and the pages are now at the one, now at the other: what else the machine does meets
// both alike.
func TestPagesCostReal(t *testing.T) {
	const limit, nodes, pages, turns, span = 300, 3, 20, 8, 5 * time.Second
	w := startServers(t, containers.Kafka)
	var fleets [2]*scene
	for i := range fleets {
		fleets[i] = w.scene(t, limit, 2*nodes, 20*time.Millisecond, alike...)
		fleets[i].enqueue(t, limit*150)
	}
	for _, s := range fleets {
		s.start(t, nodes)
		s.judge.count(t, 5*limit, time.Minute)
	}
	cpu := &besides{name: "us of the nodes' CPU for a call of the provider"}
	var without, with spent
	for range turns {
		var off, on spent
		for i := range fleets {
			a, b := besidePages(t, fleets[i], fleets[1-i], pages, span)
			off, on = off.plus(a), on.plus(b)
		}
		cpu.add([2]float64{off.cpuOfCall(), on.cpuOfCall()})
		without, with = without.plus(off), with.plus(on)
	}
	seconds := 2 * turns * span.Seconds()
	t.Logf("%s: %.1f without pages, %.1f with %d; the median of the turns' ratios is %.3f", cpu.name, cpu.values[0], cpu.values[1], pages, cpu.ratio())
	t.Logf("%.1f %% of a processor without, %.1f %% with; %.1f script calls a second without, %.1f with", 100*without.cpu.Seconds()/seconds,
		100*with.cpu.Seconds()/seconds, without.scripts/seconds, with.scripts/seconds)
	figure(t, cpu.ratio() < 1.05, "20 pages cost %.1f %% more CPU, want less than 5 %%", 100*cpu.ratio()-100)
	if scripts := (with.scripts - without.scripts) / seconds; scripts >= 5 {
		t.Errorf("20 pages cost %.1f script calls a second, want less than five", scripts)
	}
}

// besidePages is what two fleets use in the same span, of which one has pages open.
func besidePages(t *testing.T, without, with *scene, pages int, span time.Duration) (off, on spent) {
	t.Helper()
	defer with.openPages(t, pages)()
	pass(time.Second) // each page has read what it reads once
	offBefore, onBefore := without.spent(t), with.spent(t)
	pass(span)
	return without.spent(t).less(offBefore), with.spent(t).less(onBefore)
}

// cpuOfCall is in microseconds for a call of the provider.
func (s spent) cpuOfCall() float64 { return inMicros(s.cpu) / s.sent }

func (s *scene) spent(t *testing.T) (sum spent) {
	t.Helper()
	for _, n := range s.nodes {
		sum.cpu += n.cpuTime(t)
		sum.sent += n.metric(t, "dispatcher_sender_calls_total")
	}
	sum.scripts = s.scriptCalls(t)
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
