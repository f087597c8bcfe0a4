package figures

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"dispatcher/internal/redisclient"
	"dispatcher/internal/rules"
)

// start is a whole second, and the first of a half minute.
var start = time.Unix(1_700_000_010, 0)

// station is a Redis whose clock only the test moves, and the nodes that publish to it.
type station struct {
	server *miniredis.Miniredis
	rdb    redis.UniversalClient
	now    time.Time
	log    bytes.Buffer
	rules  []int64 // revisions that nodes got in replies
}

func newStation(server *miniredis.Miniredis) *station {
	s := &station{server: server, rdb: redisclient.New(redisclient.Options{Addrs: []string{server.Addr()}}), now: start}
	server.SetTime(s.now)
	return s
}

func (s *station) pass(d time.Duration) {
	s.now = s.now.Add(d)
	s.server.SetTime(s.now)
	s.server.FastForward(d)
}

// node publishes what take returns.
func (s *station) node(name string, take func() Figures) *Publisher {
	return New(Options{
		Redis: s.rdb, Namespace: "ns", Node: name, Logger: slog.New(slog.NewTextHandler(&s.log, nil)),
		Take:  func(context.Context) Figures { f := take(); f.Name = name; return f },
		Rules: func(revision int64) { s.rules = append(s.rules, revision) },
	})
}

func calls(accepted, refused float64) Figures {
	return Figures{Calls: map[string]float64{"accepted": accepted, "throttled": refused, "not_sent": 77}, Cap: 300, Eff: 150, Units: 3 * (accepted + refused)}
}

// about allows for what a node can't know: how long Redis's answers were on their way.
func about(age, want time.Duration) bool { return (age - want).Abs() < time.Second }

func mustRead(t *testing.T, s *station) []Node {
	t.Helper()
	nodes, err := Read(t.Context(), s.rdb, "ns", s.now)
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

func TestEachNodeSaysItsFiguresAndTheFleetsCallsAddUp(t *testing.T) {
	t.Parallel()
	s := newStation(miniredis.RunT(t))
	a, b := Figures{}, Figures{}
	n1, n2 := s.node("n1", func() Figures { return a }), s.node("n2", func() Figures { return b })
	for _, n := range []*Publisher{n1, n2} {
		n.publish(t.Context(), s.now) // learns Redis's clock
	}
	for second := range 3 {
		s.pass(time.Second)
		a, b = calls(float64(100*(second+1)), 0), calls(float64(50*(second+1)), float64(second))
		n1.publish(t.Context(), s.now)
		n2.publish(t.Context(), s.now.Add(80*time.Millisecond)) // a timer may be late
	}
	nodes := mustRead(t, s)
	if len(nodes) != 2 || nodes[0].Name != "n1" || nodes[1].Name != "n2" || nodes[0].Calls["accepted"] != 300 || !about(nodes[0].Age, 0) {
		t.Errorf("got %+v, want both nodes", nodes)
	}
	c, err := ReadCalls(t.Context(), s.rdb, "ns", s.now.Add(time.Second), 4)
	if err != nil {
		t.Fatal(err)
	}
	if c.From != start.Unix()-1 || c.Calls[0] != nil || c.Cap[0] != nil {
		t.Errorf("got %+v, want nothing of the second before the start", c)
	}
	for i, refused := range []float64{0, 1, 1} {
		if got := *c.Calls[i+1]; got != 150+refused {
			t.Errorf("got %v calls in second %d, want %v", got, i, 150+refused)
		}
		if got := *c.Units[i+1]; got != 3*(150+refused) {
			t.Errorf("got %v units in second %d, want %v", got, i, 3*(150+refused))
		}
		if *c.Refused[i+1] != refused || *c.Cap[i+1] != 300 || *c.Effective[i+1] != 150 {
			t.Errorf("got %v refused of %v and %v in second %d", *c.Refused[i+1], *c.Cap[i+1], *c.Effective[i+1], i)
		}
	}
}

// What a node says grows old, and is gone after a minute; a node that ends takes it away at once.
func TestWhatANodeSaidGrowsOldAndIsForgotten(t *testing.T) {
	t.Parallel()
	s := newStation(miniredis.RunT(t))
	killed, ends := s.node("killed", func() Figures { return Figures{} }), s.node("ends", func() Figures { return Figures{} })
	killed.publish(t.Context(), s.now)
	ends.publish(t.Context(), s.now)
	ends.say(t.Context(), s.now, said{second: -1})
	s.pass(7 * time.Second)
	if nodes := mustRead(t, s); len(nodes) != 1 || nodes[0].Name != "killed" || !about(nodes[0].Age, 7*time.Second) {
		t.Errorf("got %+v, want the killed node, 7 s old", nodes)
	}
	works := s.node("works", func() Figures { return Figures{} })
	for range 55 {
		works.publish(t.Context(), s.now)
		s.pass(time.Second)
	}
	if nodes := mustRead(t, s); len(nodes) != 1 || nodes[0].Name != "works" {
		t.Errorf("got %+v, want the one that works", nodes)
	}
	s.node("new", func() Figures { return Figures{} }).publish(t.Context(), s.now)
	if fields, _ := s.server.HKeys("dispatcher:{ns}:figures"); len(fields) != 2 {
		t.Errorf("got the fields %v, want that of the killed node removed by the next start", fields)
	}
}

// A node that was killed and starts again has the figures of its new process alone, also where Redis's clock was set back meanwhile.
func TestANodeThatStartsAgainSaysTheNewest(t *testing.T) {
	t.Parallel()
	for name, passes := range map[string]time.Duration{"later": 3 * time.Second, "the clock was set back": -20 * time.Second} {
		for range 8 { // ids are random, and so is their order
			s := newStation(miniredis.RunT(t))
			s.node("n1", func() Figures { return Figures{UpS: 1} }).publish(t.Context(), s.now)
			s.node("n1-other", func() Figures { return Figures{} }).publish(t.Context(), s.now)
			s.pass(passes)
			s.node("n1", func() Figures { return Figures{UpS: 2} }).publish(t.Context(), s.now)
			if nodes := mustRead(t, s); len(nodes) != 2 || nodes[0].UpS != 2 || nodes[1].Name != "n1-other" {
				t.Fatalf("%s: got %+v, want the new process of n1, and n1-other", name, nodes)
			}
		}
	}
}

// Two processes of one name may work together for a while. One that is killed then says nothing any more.
func TestOfOneNameTheNewestFiguresComeFirst(t *testing.T) {
	t.Parallel()
	for range 8 {
		s := newStation(miniredis.RunT(t))
		killed, works := s.node("n1", func() Figures { return Figures{UpS: 1} }), s.node("n1", func() Figures { return Figures{UpS: 2} })
		for _, n := range []*Publisher{works, killed, works} {
			n.publish(t.Context(), s.now)
			s.pass(time.Second)
		}
		if nodes := mustRead(t, s); len(nodes) != 2 || nodes[0].UpS != 2 {
			t.Fatalf("got %+v, want the figures of the process that works first", nodes)
		}
	}
}

// No call is counted twice, and none is left out while Redis answers.
func TestLawSecondsAddUp(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	rapid.Check(t, func(t *rapid.T) {
		server.FlushAll()
		s := newStation(server)
		total, lost := 0.0, false
		counts := [2]Figures{calls(0, 0), calls(0, 0)}
		var nodes []*Publisher
		for i, name := range []string{"n1", "n2"} {
			n := s.node(name, func() Figures { return counts[i] })
			n.publish(t.Context(), s.now)
			nodes = append(nodes, n)
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			s.pass(time.Duration(rapid.IntRange(900, 2500).Draw(t, "ms")) * time.Millisecond)
			i := rapid.IntRange(0, 1).Draw(t, "node")
			more := float64(rapid.IntRange(0, 500).Draw(t, "calls"))
			counts[i] = calls(counts[i].Calls["accepted"]+more, 0)
			total += more
			away := rapid.IntRange(0, 9).Draw(t, "away") == 0
			if away {
				server.SetError("LOADING")
				lost = true
			}
			nodes[i].publish(t.Context(), s.now)
			server.SetError("")
		}
		for i, n := range nodes {
			_ = i
			n.publish(t.Context(), s.now)
		}
		c, err := ReadCalls(t.Context(), s.rdb, "ns", s.now.Add(3*time.Second), 200)
		if err != nil {
			t.Fatal(err)
		}
		sum, units := 0.0, 0.0
		for i, n := range c.Calls {
			if n != nil {
				sum, units = sum+*n, units+*c.Units[i]
			}
		}
		if units != 3*sum {
			t.Errorf("got %v units of %v calls, want three of each", units, sum)
		}
		if sum > total || !lost && sum != total {
			t.Errorf("got %v calls in the seconds, want the %v that were made", sum, total)
		}
	})
}

func TestTooManyTopicsAreCut(t *testing.T) {
	t.Parallel()
	f := Figures{Name: "n1"}
	for range 5000 {
		f.Topics = append(f.Topics, Topic{Name: strings.Repeat("t", 249)})
	}
	text, err := f.text()
	if err != nil || len(text) > MostText {
		t.Errorf("got %d bytes and %v, want at most %d", len(text), err, MostText)
	}
	f = Figures{Name: strings.Repeat("n", MostText)}
	if _, err := f.text(); err == nil {
		t.Error("got no error for a name that leaves no room")
	}
	f = Figures{Lanes: []Lane{{Name: "default"}}, Checks: []Check{{Name: "kafka", Error: strings.Repeat("n", MostText)}}}
	if text, err := f.text(); err == nil {
		t.Errorf("got %d bytes, want an error: that of a check leaves no room", len(text))
	}
}

// Of a Cluster, the master that holds the keys is asked for the time as well: the clock of another one may be any.
func TestTheClockIsThatOfTheMasterThatHoldsTheKeys(t *testing.T) {
	t.Parallel()
	low, high := miniredis.RunT(t), miniredis.RunT(t)
	on := func(from, to int, m *miniredis.Miniredis) redis.ClusterSlot {
		return redis.ClusterSlot{Start: from, End: to, Nodes: []redis.ClusterNode{{Addr: m.Addr()}}}
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{
		DisableRoutingPolicies: true,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{on(0, 8191, low), on(8192, 16383, high)}, nil
		},
	})
	t.Cleanup(func() { _ = cluster.Close() })
	holder, err := cluster.MasterForKey(t.Context(), figuresKey("ns"))
	if err != nil {
		t.Fatal(err)
	}
	if holder.Options().Addr != low.Addr() {
		low, high = high, low
	}
	s, other := newStation(low), high
	s.rdb = cluster
	other.SetTime(start.Add(time.Hour))
	n := s.node("n1", func() Figures { return Figures{} })
	for range 20 {
		n.publish(t.Context(), s.now)
		if nodes := mustRead(t, s); len(nodes) != 1 || !about(nodes[0].said.Sub(s.now), 0) {
			t.Fatalf("got %+v, want the node at %v", nodes, s.now)
		}
		s.pass(time.Second)
	}
	if got := other.CommandCount(); got > 0 {
		t.Errorf("the other master got %d commands, want none", got)
	}
}

func TestAFailureIsLoggedOnce(t *testing.T) {
	t.Parallel()
	s := newStation(miniredis.RunT(t))
	n := s.node("n1", func() Figures { return Figures{} })
	s.server.SetError("NOPERM")
	for range 3 {
		n.publish(t.Context(), s.now)
	}
	if got := strings.Count(s.log.String(), "can't publish its figures"); got != 1 {
		t.Errorf("got %d lines, want one: %s", got, s.log.String())
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(`1700000010000000 {"name":"n1","calls":{"accepted":3}}`)
	f.Add(` {}`)
	f.Add(`9999999999999999999 {"name":"n1"}`)
	f.Fuzz(func(t *testing.T, value string) {
		if n, ok := decode("n1-0123456789abcdef", value, start); ok && (n.Name == "" || n.Age < 0) {
			t.Errorf("got %+v, want no figures", n)
		}
	})
}

// A node that publishes gets to know which rules are in force, and no fault of those stops it.
func TestANodeLearnsWhichRulesAreInForce(t *testing.T) {
	t.Parallel()
	s := newStation(miniredis.RunT(t))
	p := s.node("n1", func() Figures { return calls(0, 0) })
	key := rules.Key("ns")
	for _, set := range []func(){
		func() {},
		func() { s.server.HSet(key, "revision", "1700000000000001") },
		func() { s.server.HSet(key, "revision", "what is no number") },
		func() { s.server.Del(key); _ = s.server.Set(key, "a text") },
	} {
		set()
		p.publish(t.Context(), s.now)
		s.pass(time.Second)
	}
	if want := []int64{0, 1700000000000001, 0, 0}; !slices.Equal(s.rules, want) {
		t.Errorf("got %v, want %v", s.rules, want)
	}
}

// What nodes say is kept for as long as one of them says something, and ends a minute after the last one.
func TestFiguresAreKeptWhileANodePublishes(t *testing.T) {
	t.Parallel()
	s := newStation(miniredis.RunT(t))
	nodes := []*Publisher{s.node("n1", func() Figures { return calls(0, 0) }), s.node("n2", func() Figures { return calls(0, 0) })}
	for range 150 {
		for _, p := range nodes {
			p.publish(t.Context(), s.now)
		}
		s.pass(time.Second)
		if got := mustRead(t, s); len(got) != 2 {
			t.Fatalf("got %d nodes at %v, want 2", len(got), s.now.Sub(start))
		}
	}
	if left := s.server.TTL(figuresKey("ns")); left <= goneAfter-3*time.Second || left > goneAfter {
		t.Errorf("got %v to live, want a minute", left)
	}
	for _, key := range s.server.Keys() {
		if left := s.server.TTL(key); left <= 0 || left > kept {
			t.Errorf("%s: got %v to live", key, left)
		}
	}
	if s.pass(goneAfter); s.server.Exists(figuresKey("ns")) {
		t.Error("the figures are still there a minute after the last node")
	}
}
