package embedded_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"dispatcher/internal/background"
	"dispatcher/internal/embedded"
	"dispatcher/internal/provider"
)

// A fleet sends every job once and passes the cap in no window that could be
// judged.
func TestFleetSendsEachJobOnce(t *testing.T) {
	const jobs, limit = 900, 300
	p := begin(t, embedded.Options{Provider: provider.Options{Behaviour: provider.Behaviour{Latency: 20 * time.Millisecond}}})
	enqueue(t, p, jobs)
	f, err := embedded.NewFleet(p, 3, logger(t), fmt.Sprintf("limits.0.cap=%d", limit))
	if err != nil {
		t.Fatal(err)
	}
	stop := background.Run(t, f.Run)
	settle(t, p)
	stop()
	r := p.Provider.Report(provider.Contract{Window: time.Second, Caps: []provider.CapFrom{{Cap: limit}}})
	if r.Sent != jobs || r.Distinct != jobs || p.Dead() != 0 {
		t.Errorf("got %d calls for %d jobs and %d dead letters, want %d, %d and 0", r.Sent, r.Distinct, p.Dead(), jobs, jobs)
	}
	if !r.Kept {
		t.Errorf("got windows over the cap of %d: %+v", limit, r.Over)
	}
	t.Logf("%d in the fullest window, %.3f of the cap used, %.2f unjudged, %.2f script calls a job",
		r.MaxInWindow, r.Utilisation, r.Unjudged, f.Sum("dispatcher_limit_script_calls_total")/jobs)
}

// A node that can't go on ends by itself, and says why.
func TestANodeThatCannotGoOnEnds(t *testing.T) {
	p := begin(t, embedded.Options{})
	f, err := embedded.NewFleet(p, 1, logger(t), "kafka.topics=missing")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("got %v, want an error that names the topic", err)
	}
}

// So does one whose jobs wait for a slot that is long in coming.
func TestANodeThatCannotGoOnEndsWhileItsJobsWait(t *testing.T) {
	t.Parallel()
	p := begin(t, embedded.Options{MoreTopics: []string{"other"}, Partitions: 1})
	enqueue(t, p, 10)
	f, err := embedded.NewFleet(p, 1, logger(t), "limits.0.cap=1", "limits.0.window=24h", "kafka.topics=jobs,other", "kafka.out_of_range=stop")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	await(t, func() bool { s := f.Nodes[0].Consumer(); return len(s.Partitions) == 2 && s.Lanes[0].Ready == 10 })
	recreate(t, p, "other")
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "topic other: the topic was deleted") || ctx.Err() != nil {
		t.Errorf("got %v and context error %v, want an end by itself, with what is wrong with the topic", err, ctx.Err())
	}
}
