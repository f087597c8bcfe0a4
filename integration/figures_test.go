package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"testing"
	"time"

	"dispatcher/internal/containers"
)

// getJSON asks a node's API.
func (n *node) getJSON(t *testing.T, path string, into any) {
	t.Helper()
	resp := n.get(t, "/api/v1/"+path)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("node %d: %s: status %d, %v: %s", n.number, path, resp.StatusCode, err, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("node %d: %s: %v: %s", n.number, path, err, text)
	}
}

// What the API, the page, status and /metrics show of a minute is what the provider counted, within 1 %, whichever node is asked.
// The figures of an hour take a stated part of Redis.
func TestFiguresReal(t *testing.T) {
	const limit, seconds = 300, 60
	w := startServers(t, containers.Kafka)
	s := w.scene(t, limit, 6, 20*time.Millisecond)
	s.enqueue(t, limit*(seconds+30))
	s.start(t, 3)
	s.judge.count(t, 2*limit, time.Minute) // all nodes work
	metrics := func() (sum float64) {
		for _, n := range s.nodes {
			sum += n.metric(t, "dispatcher_sender_calls_total")
		}
		return sum
	}
	first := s.judge.epoch(t).Add(s.now(t)).Unix() + 2 // a second that begins soon
	s.judge.count(t, (seconds+8)*limit, 2*time.Minute)
	counted, before := len(s.judge.arrivals(t)), metrics()
	var status struct{ Calls shownCalls }
	if out := s.mustCommand(t, "status", "--json"); json.Unmarshal([]byte(out), &status) != nil {
		t.Fatalf("status --json: %s", out)
	}

	epoch := s.judge.epoch(t)
	perSecond := map[int64]float64{}
	for _, a := range s.judge.arrivals(t) {
		perSecond[epoch.Add(a.At).Unix()]++
	}
	counts := func(from int64) (sum float64) { // of the provider
		for second := range int64(seconds) {
			sum += perSecond[from+second]
		}
		return sum
	}
	near := func(what string, got, want float64) {
		t.Helper()
		off := math.Abs(got/want - 1)
		t.Logf("%s: %.0f, the provider counted %.0f: %.2f %% apart", what, got, want, 100*off)
		if off > 0.01 {
			t.Errorf("%s is more than 1 %% apart", what)
		}
	}
	for _, n := range s.nodes {
		var shown shownCalls
		n.getJSON(t, "calls?seconds=900", &shown)
		near(fmt.Sprintf("calls by node %d", n.number), shown.sum(first, seconds), counts(first))
	}
	near("status", status.Calls.sum(status.Calls.From, seconds), counts(status.Calls.From))
	near("/metrics of all nodes", before, float64(counted))
	said, halfMinute := s.figuresBytes(t)
	t.Logf("Redis holds %d bytes that three nodes say of themselves, and at most %d of half a minute: %d kB of an hour", said, halfMinute, 120*halfMinute/1000)
	var o struct {
		Nodes  []struct{ Share float64 }
		Health struct{ State, Text string }
		Lanes  []struct{ Waiting float64 }
	}
	s.nodes[1].getJSON(t, "overview", &o)
	records, committed := s.backlog(t)
	t.Logf("%s (%s), %d records less %d committed", o.Health.Text, o.Health.State, records, committed)
	share := 0.0
	for _, n := range o.Nodes {
		share += n.Share
	}
	if o.Health.State != "limited" || len(o.Nodes) != 3 || math.Abs(share-1) > 0.01 {
		t.Errorf("got %+v, want three nodes that the limit holds up", o)
	}
	// What a node says is a second old at most, and commits follow the calls.
	if waiting := o.Lanes[0].Waiting; math.Abs(waiting-float64(records-committed)) > 2*limit {
		t.Errorf("got %.0f jobs that wait, want the %d that are not committed, give or take those of two seconds", waiting, records-committed)
	}
}

// shownCalls are the calls of each second, as the API has them.
type shownCalls struct {
	From  int64
	Calls []*float64
}

// sum adds up so many seconds.
func (c shownCalls) sum(from, seconds int64) (calls float64) {
	for i, n := range c.Calls {
		if at := c.From + int64(i); n != nil && at >= from && at < from+seconds {
			calls += *n
		}
	}
	return calls
}

// figuresBytes are the bytes of Redis that the figures take: of what nodes say of themselves, and of the fullest half minute.
func (s *scene) figuresBytes(t *testing.T) (nodes, halfMinute int64) {
	t.Helper()
	prefix := "dispatcher:{" + s.namespace + "}:"
	keys, err := s.rdb.Keys(t.Context(), prefix+"seconds:*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatalf("got no seconds: %v", err)
	}
	for _, key := range append(keys, prefix+"figures") {
		bytes, err := s.rdb.MemoryUsage(t.Context(), key).Result()
		switch {
		case err != nil:
			t.Fatal(err)
		case key == prefix+"figures":
			nodes = bytes
		default:
			halfMinute = max(halfMinute, bytes)
		}
	}
	return nodes, halfMinute
}
