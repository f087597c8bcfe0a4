package feedback

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dispatcher/throttle/limit"
)

func contractOf(units int64) limit.Contract {
	return limit.Contract{
		Cap: units, Window: time.Second, Burst: 1, MaxCost: 1, Guard: limit.DefaultGuard, Lateness: limit.DefaultLateness,
		Spread: limit.DefaultSpread, Horizon: limit.DefaultHorizon,
	}
}

const (
	second = 1_000_000               // µs
	start  = 1_700_000_000 * second  // when a play begins, on Redis's clock
	tick   = 10_000                  // µs: the steps of a play
	reply  = 20 * time.Millisecond   // until a node knows a new slowdown
	report = 400 * time.Millisecond  // between two reports of a node
	looks  = 1000 * time.Millisecond // between two decisions, as feedback.lua has it
)

// play is a fleet with jobs without end and a provider, in steps of time. It does what feedback.lua and the nodes do.
type play struct {
	contract limit.Contract
	nodes    []*playNode
	accepts  func(at float64) float64 // units a second that the provider accepts, by the second of the play
	asks     time.Duration            // Retry-After of its refusals
	latency  time.Duration            // of its answers

	now     int64
	slow    limit.Slowdown
	looked  int64
	reports map[int]Counts
	owed    float64 // of a unit, that the pace allows already
	taken   []int64 // units that the provider accepted in the last second
	answers []answer
	seconds []tallied
	events  []string
}

type playNode struct {
	Counter

	knows  int64 // number of the slowdown
	learns int64 // when it learns the one in force
	saidAt int64
}

type answer struct {
	at, slot int64
	node     int
	refused  bool
}

type tallied struct{ accepted, refused, granted int }

func newPlay(c limit.Contract, nodes int, accepts func(float64) float64) *play {
	p := &play{contract: c, accepts: accepts, now: start, reports: map[int]Counts{}}
	for range nodes {
		p.nodes = append(p.nodes, &playNode{})
	}
	return p
}

func clockAt(us int64) time.Time { return time.UnixMicro(us) }

func (p *play) run(seconds int) {
	for range seconds {
		p.seconds = append(p.seconds, tallied{})
		for end := p.now + second; p.now < end; p.now += tick {
			p.step()
		}
	}
}

func (p *play) step() {
	share := p.contract.Share() * p.slow.Share(p.contract)
	if p.slow.Until > p.now {
		p.owed = 0
	} else {
		p.owed += share * float64(p.contract.Cap) * tick / second
	}
	for ; p.owed >= 1; p.owed-- {
		p.call()
	}
	for len(p.answers) > 0 && p.answers[0].at <= p.now {
		a := p.answers[0]
		p.answers = p.answers[1:]
		if a.refused {
			p.nodes[a.node].Refused(a.slot, 1, p.asks)
		}
	}
	for i, n := range p.nodes {
		p.learn(n)
		if p.now-n.saidAt >= report.Microseconds() {
			p.report(i, n)
		}
	}
}

func (p *play) call() {
	this := &p.seconds[len(p.seconds)-1]
	this.granted++
	node := (this.granted*7 + len(p.seconds)) % len(p.nodes)
	p.nodes[node].Made(p.now, 1, clockAt(p.now))
	for len(p.taken) > 0 && p.taken[0] <= p.now-second {
		p.taken = p.taken[1:]
	}
	refused := float64(len(p.taken)) >= p.accepts(float64(p.now-start)/second)
	if refused {
		this.refused++
	} else {
		this.accepted++
		p.taken = append(p.taken, p.now)
	}
	p.answers = append(p.answers, answer{p.now + p.latency.Microseconds(), p.now, node, refused})
}

// learn has a node know the slowdown in force, a moment after it was written.
func (p *play) learn(n *playNode) {
	if n.knows == p.slow.Number {
		n.learns = 0
		return
	}
	if n.learns == 0 {
		n.learns = p.now + reply.Microseconds()
	}
	if p.now >= n.learns {
		n.knows, n.learns = p.slow.Number, 0
		n.Follow(p.slow, clockAt(max(p.now, p.slow.Since)))
	}
}

// report is a call of feedback.lua, and the decision where this node is to make one.
func (p *play) report(i int, n *playNode) {
	c := n.Counts()
	if c.Made == 0 && c.Refused == 0 {
		return
	}
	n.saidAt = p.now
	if c.Number != p.slow.Number {
		return
	}
	p.reports[i] = c
	if p.now < max(p.looked, p.slow.Since)+looks.Microseconds() {
		return
	}
	p.looked = p.now
	d := Decision{Next: Begin(p.contract, p.now), Changed: true}
	if !p.slow.IsZero() {
		var all []Counts
		for _, one := range p.reports {
			all = append(all, one)
		}
		d = Next(p.slow, p.contract, p.contract.Share(), all, p.now)
	}
	if d.Changed {
		p.slow, p.reports = d.Next, map[int]Counts{}
		p.looked = p.now
		if d.Event != "" {
			p.events = append(p.events, fmt.Sprintf("%ds: %s", len(p.seconds)-1, d.Event))
		}
	}
}

// sum adds the seconds from one to another.
func (p *play) sum(from, to int) (all tallied) {
	for _, s := range p.seconds[from:to] {
		all.accepted, all.refused, all.granted = all.accepted+s.accepted, all.refused+s.refused, all.granted+s.granted
	}
	return all
}

func always(units float64) func(float64) float64 { return func(float64) float64 { return units } }

// from is a provider that accepts other numbers from some second on.
func from(units float64, second float64, then float64) func(float64) float64 {
	return func(at float64) float64 {
		if at < second {
			return units
		}
		return then
	}
}

const everything = 1e9

// A provider that accepts less than the cap gets about what it accepts, and few calls too many. When it accepts more, it
// soon gets more.
func TestTheFleetFollowsItsProvider(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		accepts func(float64) float64
		latency time.Duration
		seconds int
		from    int     // judged from this second on
		least   float64 // accepted units a second
		refused float64 // share, at most
	}{
		{"200 of 300", always(200), 0, 180, 10, 190, 0.01},
		{"200 of 300, answered after a second", always(200), time.Second, 180, 15, 186, 0.02},
		{"20 of 300", always(20), 0, 180, 10, 18.4, 0.015}, // three refused calls are judged, which are 1.5 % of ten seconds
		{"200 of 300, from 90 s on everything", from(200, 90, everything), 0, 180, 140, 296, 0},
		{"100 of 300, from 60 s on 250", from(100, 60, 250), 0, 180, 120, 235, 0.01},
		{"everything, from 60 s on 150", from(everything, 60, 150), 0, 180, 70, 140, 0.01},
		{"all", always(everything), 0, 60, 0, 297, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p := newPlay(contractOf(300), 3, row.accepts)
			p.asks, p.latency = 3*time.Second, row.latency
			p.run(row.seconds)
			got := p.sum(row.from, row.seconds)
			accepted, refused := float64(got.accepted)/float64(row.seconds-row.from), float64(got.refused)/float64(got.granted)
			t.Logf("%.1f accepted a second, %.2f %% refused from %d s on; %s", accepted, 100*refused, row.from, strings.Join(p.events, "; "))
			if accepted < row.least || refused > row.refused {
				t.Errorf("got %.1f accepted a second and %.2f %% refused, want %.1f and %.2f %%", accepted, 100*refused, row.least, 100*row.refused)
			}
		})
	}
}

// Within a minute after a provider accepts everything again, all of the cap is used again.
func TestTheCapComesBackWithinAMinute(t *testing.T) {
	t.Parallel()
	for _, units := range []float64{200, 100, 30} {
		p := newPlay(contractOf(300), 3, from(units, 60, everything))
		p.asks = 3 * time.Second
		p.run(140)
		if got := p.sum(119, 120); got.granted < 296 && units >= 100 {
			t.Errorf("from %g: got %d calls in the second a minute later, want 297", units, got.granted)
		}
		t.Logf("from %g: %s", units, strings.Join(p.events, "; "))
	}
}

// A provider that refuses everything, and wants none for a year, is asked again each minute.
func TestARetryAfterOfAYearIsBounded(t *testing.T) {
	t.Parallel()
	for _, asks := range []time.Duration{365 * 24 * time.Hour, 0, -time.Hour} {
		p := newPlay(contractOf(300), 3, from(0, 600, everything))
		p.asks = max(0, min(asks, 10*time.Minute)) // as package sender reads it
		p.run(720)
		if got := p.sum(60, 600); got.granted > 540*3 || got.granted < 30 {
			t.Errorf("asked for %v: got %d calls in nine minutes in which all are refused, want a few each minute", asks, got.granted)
		}
		if got := p.sum(719, 720); got.accepted < 296 {
			t.Errorf("asked for %v: got %d calls a second two minutes after the end, want 297", asks, got.accepted)
		}
		t.Logf("asked for %v: %d calls in nine minutes; %s", asks, p.sum(60, 600).granted, strings.Join(p.events, "; "))
	}
}

// A provider that refuses calls for another reason than their rate does not take the cap away, whether it refuses each
// nth call or by chance.
func TestRefusalsAtAnyRateLowerNothingForLong(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		cap     int64
		refuses float64
		chance  bool
		least   float64 // of the cap is used
	}{
		{300, 0.05, false, 0.93}, {300, 0.02, true, 0.85}, {300, 0.2, true, 0.85}, {50, 0.03, true, 0.8}, {20, 0.05, true, 0.7}, {10, 0.05, true, 0.8}, {50, 0.3, true, 0.8}, {5, 0.1, true, 0.6},
	} {
		for seed := range uint64(3) {
			p := newPlay(contractOf(row.cap), 3, nil)
			n, dice := 0, rand.New(rand.NewPCG(seed, 1))
			p.accepts = func(float64) float64 {
				n++
				if !row.chance && n%int(1/row.refuses) == 0 || row.chance && dice.Float64() < row.refuses {
					return 0
				}
				return everything
			}
			p.asks = time.Second
			p.run(900)
			got := float64(p.sum(300, 900).granted) / (600 * float64(row.cap) * p.contract.Share())
			t.Logf("%d/s, %.0f %% refused: %.3f of the cap used", row.cap, 100*row.refuses, got)
			if got < row.least {
				t.Errorf("%d/s, %.0f %% refused at any rate: got %.3f of the cap used, want %.2f; %s", row.cap, 100*row.refuses, got, row.least, strings.Join(p.events, "; "))
			}
		}
	}
}

// everyNth is a provider that accepts up to so many units a second, and refuses each nth call for another reason.
func everyNth(n int, accepts func(float64) float64) func(float64) float64 {
	calls := 0
	return func(at float64) float64 {
		if calls++; calls%n == 0 {
			return 0
		}
		return accepts(at)
	}
}

// After an incident the cap comes back, also at a provider that goes on to refuse a few calls for another reason than their rate.
func TestAFewRefusedCallsDoNotKeepTheCapDown(t *testing.T) {
	t.Parallel()
	for _, n := range []int{150, 300, 1000} {
		p := newPlay(contractOf(300), 3, everyNth(n, from(60, 60, everything)))
		p.asks = 3 * time.Second
		p.run(360)
		if got := p.sum(59, 60); got.granted > 90 {
			t.Errorf("one in %d: got %d calls in the last second of the incident, want about 60", n, got.granted)
		}
		if got := p.sum(300, 360); got.granted < 60*296 {
			t.Errorf("one in %d refused: got %.1f calls a second four minutes after the incident, want 297", n, float64(got.granted)/60)
		}
		t.Logf("one in %d: %s", n, strings.Join(p.events, "; "))
	}
}

// While a fleet only watches its calls, the operator's cap is in force at once, raised or lowered.
func TestTheOperatorsCapIsInForceWhileCallsAreWatched(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		caps []int64 // for ten seconds each, but the last
		want int     // calls a second
	}{
		{[]int64{300, 600}, 594},
		{[]int64{300, 30, 300}, 297},
	} {
		p := newPlay(contractOf(row.caps[0]), 3, everyNth(500, always(everything)))
		for _, units := range row.caps {
			p.contract.Cap = units
			p.run(10)
		}
		if got := p.sum(len(p.seconds)-10, len(p.seconds)); got.granted < 10*row.want-10 || p.slow.IsZero() {
			t.Errorf("caps %v: got %d calls in ten seconds under slowdown %+v, want %d under one", row.caps, got.granted, p.slow, 10*row.want)
		}
		p.accepts = always(0.8 * float64(p.contract.Cap)) // now something has to be slowed
		p.run(10)
		if got := p.slow.EffectiveCap(p.contract) / float64(p.contract.Cap); got < 0.75 || got > 0.85 {
			t.Errorf("caps %v, then a provider that accepts 0.8 of the last: got an effective cap of %.2f of it", row.caps, got)
		}
	}
}

// A fleet that was idle, or has few jobs, keeps its cap where now and then a call is refused.
func TestFewCallsDoNotTakeTheCapAway(t *testing.T) {
	t.Parallel()
	c := contractOf(300)
	for _, row := range []struct {
		name   string
		counts Counts
		age    int64
		least  float64
	}{
		{"after two minutes without a job", Counts{Calls: 200, Made: 200, Refused: 6, RefusedCalls: 6, Span: 1700 * time.Millisecond}, 120 * second, 60},
		{"one of twenty", Counts{Calls: 20, Made: 20, Refused: 1, RefusedCalls: 1, Span: 10 * time.Second}, 11 * second, 200},
		{"one of one", Counts{Calls: 1, Made: 1, Refused: 1, RefusedCalls: 1, Span: time.Second}, 11 * second, 200},
		{"three of twenty", Counts{Calls: 20, Made: 20, Refused: 3, RefusedCalls: 3, Span: 10 * time.Second}, 11 * second, 97},
		{"of calls that were made before", Counts{Calls: 3, Made: 3, Refused: 15, Span: time.Second}, 11 * second, 200},
		{"one large job", Counts{Calls: 2, Made: 5, Refused: 3, RefusedCalls: 1, Span: time.Second}, 2 * second, 200},
	} {
		s := limit.Slowdown{Number: start, Since: start, Units: 200, Effective: 200, Window: second, Slowed: start, Throttled: start}
		row.counts.Number = start
		d := Next(s, c, c.Share(), []Counts{row.counts}, start+row.age)
		if d.Next.Units < row.least || d.Next.Until > start+row.age {
			t.Errorf("%s: got %.1f units and %q, want at least %.0f of 200 and no block", row.name, d.Next.Units, d.Event, row.least)
		}
	}
}

// Whatever a provider answers: never more than the operator's cap, never less than a hundredth of it but in a block, which ends
// within a minute; numbers rise; and it ends by itself when nothing is refused any more.
func TestASlowdownIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := contractOf(rapid.SampledFrom([]int64{1, 5, 20, 300, 5000}).Draw(t, "cap"))
		c.Window = rapid.SampledFrom([]time.Duration{100 * time.Millisecond, time.Second, time.Minute}).Draw(t, "window")
		now := int64(start)
		s := Begin(c, now)
		for range rapid.IntRange(1, 60).Draw(t, "looks") {
			now = max(now, s.Since) + rapid.Int64Range(1, 30*second).Draw(t, "passes")
			var nodes []Counts
			for range rapid.IntRange(0, 4).Draw(t, "nodes") {
				made := rapid.Int64Range(0, 1000).Draw(t, "made")
				nodes = append(nodes, Counts{
					Number: s.Number, Made: made, Calls: made, RefusedCalls: rapid.Int64Range(0, 1000).Draw(t, "refused calls"), Refused: rapid.Int64Range(0, 1000).Draw(t, "refused"),
					Asked: time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "asked")), Span: time.Duration(rapid.Int64Range(0, 1e10).Draw(t, "span")),
				})
			}
			if rapid.IntRange(0, 9).Draw(t, "operator") == 0 {
				c.Cap = rapid.Int64Range(1, 5000).Draw(t, "new cap")
			}
			d := Next(s, c, c.Share(), nodes, now)
			if d.Next.IsZero() {
				s = Begin(c, now)
				continue
			}
			n := d.Next
			units := n.UnitsIn(c)
			switch {
			case d.Changed && n.Number <= s.Number || n.Since < s.Since:
				t.Fatalf("got number %d since %d after %d since %d", n.Number, n.Since, s.Number, s.Since)
			case math.IsNaN(units) || units > float64(c.Cap) || n.Effective*float64(c.Window.Microseconds())/float64(n.Window) > float64(c.Cap)*1.000001 && d.Changed:
				t.Fatalf("got %g units and an effective cap of %g, above the cap of %d", units, n.Effective, c.Cap)
			case d.Changed && units < 0.0099*float64(c.Cap):
				t.Fatalf("got %g units of %d", units, c.Cap)
			case n.Until > now+60*second || n.Since > now+60*second:
				t.Fatalf("got a block until %d s ahead", (n.Until-now)/second)
			}
			if back, err := limit.UnpackSlowdown(n.Pack()); err != nil || back != n {
				t.Fatalf("got %+v and %v back of %+v", back, err, n)
			}
			s = n
		}
		for ends := range 2000 {
			now = max(now, s.Since) + 3*second/2
			d := Next(s, c, c.Share(), []Counts{{Number: s.Number, Made: 100, Calls: 100, Span: time.Second}}, now)
			if d.Next.IsZero() {
				t.Logf("ended after %d looks", ends)
				return
			}
			s = d.Next
		}
		t.Fatalf("it has not ended by itself: %+v", s)
	})
}

// The effective cap rises to the operator's, and no further.
func TestTheEffectiveCapRisesToTheOperators(t *testing.T) {
	t.Parallel()
	c := contractOf(300)
	s := Begin(c, start)
	s.Effective, s.Units, s.Slowed = 299, 299, start
	now := s.Since + 3*quiet.Microseconds()
	d := Next(s, c, c.Share(), []Counts{{Number: s.Number, Made: 100, Calls: 100, Span: time.Second}}, now)
	if d.Next.Effective != 300 || d.Next.Units != 300 {
		t.Errorf("got %g and %g units, want 300", d.Next.Effective, d.Next.Units)
	}
}

func FuzzCounts(f *testing.F) {
	f.Add("1 2 3 4 5 6 7")
	f.Add("1700000000000000 100 0 100 0 0 1000000")
	f.Add("- 1")
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := readCounts(text)
		if !ok {
			return
		}
		if again, ok := readCounts(c.String()); !ok || again != c {
			t.Errorf("%q: got %+v, then %+v", text, c, again)
		}
	})
}

// Calls of slots before a slowdown, and what was counted under another one, say nothing about it.
func TestCallsOfBeforeDoNotCount(t *testing.T) {
	t.Parallel()
	var c Counter
	c.Made(start, 1, clockAt(start))
	if got := c.Counts(); got.Made != 0 {
		t.Errorf("got %d calls made without a slowdown, want that nobody counts", got.Made)
	}
	c.Refused(start, 2, time.Second)
	if got := c.Counts(); got.Refused != 2 || got.Number != 0 {
		t.Errorf("got %+v, want 2 refused units under no slowdown", got)
	}
	c.Follow(limit.Slowdown{Number: start, Since: start + second}, clockAt(start+second))
	c.Made(start+second-1, 1, clockAt(start+second))
	c.Refused(start+second-1, 1, time.Minute)
	c.Made(start+second, 3, clockAt(start+3*second/2))
	c.Refused(start+second, 1, time.Second)
	c.Made(start+second, 1, clockAt(start+9*second)) // idle until then
	want := Counts{Number: start, Calls: 2, RefusedCalls: 1, Made: 4, Refused: 1, Asked: time.Second, Span: 3 * time.Second / 2}
	if got := c.Counts(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	c.Follow(limit.Slowdown{Number: start, Since: start + second}, clockAt(start+9*second))
	if got := c.Counts(); got != want {
		t.Errorf("got %+v after the same slowdown again, want %+v", got, want)
	}
	c.Follow(limit.Slowdown{Number: start + 2*second, Since: start + 2*second}, clockAt(start+2*second))
	if got := c.Counts(); got.Made != 0 || got.Refused != 0 || got.Asked != 0 {
		t.Errorf("got %+v under a new slowdown, want none", got)
	}
}
