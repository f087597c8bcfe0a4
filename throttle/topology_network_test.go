package throttle_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"dispatcher/internal/containers"
	"dispatcher/internal/redisclient"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/phase"
)

// way is one node's way to Redis, which can be made bad.
type way struct {
	t     *testing.T
	proxy *toxiproxy.Proxy
}

func newWay(t *testing.T, upstream string) *way {
	t.Helper()
	notBefore := zerolog.Nop()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), notBefore)
	p := toxiproxy.NewProxy(server, t.Name(), "127.0.0.1:0", upstream)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return &way{t: t, proxy: p}
}

// bad adds a fault in one direction: downstream is from Redis to the node.
func (w *way) bad(kind, direction, attributes string) {
	w.t.Helper()
	text := fmt.Sprintf(`{"name": %[1]q, "type": %[2]q, "stream": %[3]q, "attributes": %[4]s}`, kind+direction, kind, direction, attributes)
	if _, err := w.proxy.Toxics.AddToxicJson(strings.NewReader(text)); err != nil {
		w.t.Fatal(err)
	}
}

// good takes all faults away.
func (w *way) good() { w.proxy.Toxics.ResetToxics(w.t.Context()) }

// ways are as many, each with a client.
func ways(t *testing.T, n int, upstream string) (list []*way, rdbs []redis.UniversalClient) {
	t.Helper()
	for range n {
		w := newWay(t, upstream)
		list = append(list, w)
		rdbs = append(rdbs, client(t, redisclient.Options{Addrs: []string{w.proxy.Listen}}))
	}
	return list, rdbs
}

// A node that can't reach Redis waits; the others have the whole cap.
func TestRedisOneNodeCutOffReal(t *testing.T) {
	t.Parallel()
	s := containers.Redis(t)
	list, rdbs := ways(t, 3, s.Addr)
	f := startRealFleet(t, usual(), rdbs...)
	f.works(time.Minute)
	list[0].bad("timeout", "upstream", `{"timeout": 0}`)
	list[0].bad("timeout", "downstream", `{"timeout": 0}`)
	f.says(0, phase.Away, "")
	cut := time.Now().Add(250 * time.Millisecond) // what was reserved before is over
	whole := func() bool { return f.fullest(cut) >= int(0.9*float64(usual().Cap)) }
	containers.Figure(t, f.eventually(30*time.Second, whole), "got %d calls in the fullest second, want nearly the cap of %d", f.fullest(cut), usual().Cap)
	alone := f.since(cut)
	t.Logf("the others made %d calls in the fullest second, the cap is %d", f.fullest(cut), usual().Cap)
	for _, u := range alone {
		if u.node == 0 {
			t.Fatal("the node that is cut off has called")
		}
	}
	list[0].good()
	f.says(0, phase.Running, "")
	f.works(time.Minute)
	f.halt()
}

// Replies are lost in several ways: a reservation that is asked for again gives the
// same slots, and never more.
func TestRedisLostRepliesReal(t *testing.T) {
	t.Parallel()
	s := containers.Redis(t)
	for _, row := range []struct{ kind, attributes string }{
		{"limit_data", `{"bytes": 700}`}, // in the middle of a reply
		{"reset_peer", `{"timeout": 0}`},
		{"timeout", `{"timeout": 30}`},
		{"slicer", `{"average_size": 20, "size_variation": 10, "delay": 10}`},
	} {
		list, rdbs := ways(t, 2, s.Addr)
		f := startRealFleet(t, usual(), rdbs...)
		f.works(time.Minute)
		for round := range 20 { // each node's replies are lost for a while, in turn
			w := list[round%len(list)]
			w.bad(row.kind, "downstream", row.attributes)
			pause(100 * time.Millisecond)
			w.good()
			pause(50 * time.Millisecond)
		}
		f.works(time.Minute)
		t.Log(row.kind)
		f.halt()
	}
}

// A Redis that is 50 ms away can't be used with a lateness of 3 ms: the state
// says so, and nothing is sent. With a lateness above the way it works.
func TestRedisFarAwayReal(t *testing.T) {
	t.Parallel()
	s := containers.Redis(t)
	list, rdbs := ways(t, 3, s.Addr)
	for _, w := range list {
		w.bad("latency", "upstream", `{"latency": 25}`)
		w.bad("latency", "downstream", `{"latency": 25}`)
	}
	begin := time.Now()
	f := startRealFleet(t, usual(), rdbs...)
	for i := range rdbs {
		f.says(i, phase.TooSlow, "raise them with limit set --lateness --guard")
	}
	pause(time.Second)
	f.silent(begin)
	f.halt()

	far := usual()
	far.Lateness, far.Guard = 80*time.Millisecond, 90*time.Millisecond
	for _, rdb := range rdbs[:1] {
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, nodes := range []int{1, 3} {
		f := startRealFleet(t, far, rdbs[:nodes]...)
		f.works(time.Minute)
		from := time.Now()
		pause(3 * time.Second)
		per := float64(len(f.since(from))) / time.Since(from).Seconds()
		t.Logf("%d nodes, 50 ms away, lateness %s: %.1f calls a second, the cap is %d", nodes, far.Lateness, per, far.Cap)
		f.halt()
	}
}

// Redis is 10 ms away, too far for a lateness of 3 ms. Where the guard is auto, the fleet takes a longer one by itself.
func TestRedisFarAwayWithGuardAutoReal(t *testing.T) {
	t.Parallel()
	list, rdbs := ways(t, 3, containers.Redis(t).Addr)
	for _, w := range list {
		w.bad("latency", "downstream", `{"latency": 10}`)
	}
	auto := usual()
	auto.Spread = limit.DefaultSpread
	f := startRealFleet(t, auto.WithLateness(limit.DefaultLateness), rdbs...)
	f.works(time.Minute)
	for i, n := range f.nodes {
		if got := n.State().Settings.Lateness; got < 12*time.Millisecond {
			t.Errorf("node %d works 10 ms away with lateness %s", i, got)
		}
	}
	f.halt()
}
