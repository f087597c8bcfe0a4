package throttle

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"dispatcher/internal/containers"
	"dispatcher/throttle/control"
	"dispatcher/throttle/internal/gates"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/internal/slots"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// gatesRun is a fleet whose jobs pass gates, around the real script, in simulated time. Nodes
// ask, lose replies, give slots back, die and come; Redis forgets and its clock steps;
// operators change the terms of all limits.
type gatesRun struct {
	redisTime

	t     tester
	rdb   redis.UniversalClient
	text  string
	roll  dice
	algo  string
	set   limit.Settings
	gates []limit.Settings // as the file states them
	nodes []*gatesNode
	named int
	calls map[Value][]gateCall
	terms []gateTerms             // that operators set
	late  func(guard int64) int64 // by how much a call begins after its slot
	keeps bool                    // no slot is given back
	lanes []float64               // min shares of the lanes of jobs; none: they have no lanes
	count int                     // of the calls, and of the jobs that gates refused
	shut  int

	blocks map[Value]valueBlock // that Redis knows
	held   int                  // how many of these
	newest *slots.Charge        // of the last job that got slots
	broken string               // a job passed a block
}

// valueBlock is a block of a value. Another epoch knows nothing of it.
type valueBlock struct{ epoch, until int64 }

// gateTerms are those of a gate from a time on.
type gateTerms struct {
	gate int
	at   int64
	set  limit.Settings
}

type gatesNode struct {
	scripts script.Scripts
	seq     int64
	epoch   int64
	known   limit.Settings
	gates   []limit.Settings
	stepped bool
	refunds []slots.Correction
}

// gateCall is a call as the provider counts it for one value of a gate's key.
type gateCall struct {
	at, units int64
	terms     limit.Terms
}

var gateNames = []string{"sender", "recipient"}

const first = -1 // stands for the first limit among the gates

func gateOf(capacity int64, window time.Duration, largest int64) limit.Settings {
	c := contract(capacity)
	c.Window, c.MaxCost = window, largest
	seed := seeded(c)
	seed.Gate = true
	s, err := limit.Unpack(seed.Pack())
	if err != nil {
		panic(err)
	}
	return s
}

func newGatesRun(t tester, rdb redis.UniversalClient, mini *miniredis.Miniredis, algo, text string, roll dice) *gatesRun {
	t.Helper()
	flush(t, rdb)
	c := contract([]int64{20, 300}[roll(2)])
	c.MaxCost = 1 + roll(2)
	if algo == limit.GCRA {
		c.Burst = c.MaxCost
	}
	r := &gatesRun{redisTime: redisTime{mini: mini, now: 1_700_000_000_000_000}, t: t, rdb: rdb, text: text, roll: roll, algo: algo, set: seededBy(algo, c), calls: map[Value][]gateCall{}, blocks: map[Value]valueBlock{}}
	r.gates = []limit.Settings{gateOf(2+roll(4), 500*time.Millisecond, c.MaxCost), gateOf(c.MaxCost, 400*time.Millisecond, c.MaxCost)}
	r.late = func(guard int64) int64 { return r.roll(guard + 1) }
	r.pass(0)
	for range 1 + roll(3) {
		r.nodes = append(r.nodes, r.fresh())
	}
	r.pollAll()
	r.pass(3_000_000) // past the cooldown of the start
	r.pollAll()
	r.pass(3_000_000)
	return r
}

func (r *gatesRun) fresh() *gatesNode {
	r.named++
	n := &gatesNode{scripts: script.NewScripts(r.rdb, "gates", "provider", fmt.Sprint("node", r.named)), known: r.set, gates: slices.Clone(r.gates), seq: 1}
	n.scripts.Reserving[r.algo] = redis.NewScript(r.text)
	return n
}

func (r *gatesRun) pollAll() {
	for _, n := range r.nodes {
		r.ask(n, nil, false)
	}
}

// jobs are requests whose keys are few, so that many meet.
func (r *gatesRun) jobs() []Request {
	all := make([]Request, 1+r.roll(6))
	for i := range all {
		all[i].Cost = 1 + r.roll(r.set.LargestCost())
		for gate := range r.gates {
			if r.roll(4) > 0 {
				all[i].Passes = append(all[i].Passes, Passed{Value: Value{Gate: gate, Hash: HashOf(fmt.Sprint(r.roll(3)))}, Units: r.roll(1 + r.set.LargestCost())})
			}
		}
	}
	return all
}

// gatesKnown are gates with these settings, beside those of the first limit.
func gatesKnown(set []limit.Settings, first limit.Settings) gates.Known {
	stated := make([]gates.Gate, len(set))
	for i := range stated {
		stated[i] = gates.Gate{Name: gateNames[i], Limit: limit.Spec{Terms: first.Terms}, Keyed: true}
	}
	known := gates.New(stated, first.Terms, slog.New(slog.DiscardHandler), nil)
	known.Take(script.Choice{Gates: set}, 0, first.Terms)
	return known
}

// reserve makes a call of a node for jobs, as with changes it.
func (r *gatesRun) reserve(n *gatesNode, jobs []Request, unused []slots.Correction, with func(*script.Ask)) script.Reservation {
	l := &reserver{Limiter: &Limiter{gates: gatesKnown(n.gates, r.set)}}
	l.clock.Epoch = n.epoch
	l.kind = algorithm(r.algo)
	asked := make([]request, len(jobs))
	for i, job := range jobs {
		asked[i] = request{Request: job, answer: &Answer{}}
	}
	a := script.Ask{
		Want: unitsOf(asked), Costs: costsOf(asked), Seq: n.seq, Epoch: n.epoch, Stepped: n.stepped, Gates: l.gatesOf(asked, unused), Corrections: l.firstOf(unused),
		Identity: string(IdentityNone), Nearest: nearest, Learned: n.epoch != 0, Known: n.known, Lane: laneOf(r.lanes, r.roll),
	}
	with(&a)
	b, err := n.scripts.Reserve(contextOf(r.t), a)
	if err != nil {
		r.t.Fatal(err)
	}
	if r.mini == nil {
		r.now = max(r.now, b.Now)
	}
	if len(jobs) > 0 {
		n.seq++
	}
	return b
}

// learn takes in what a reply says of the limits.
func (n *gatesNode) learn(b script.Reservation) {
	n.epoch, n.known, n.stepped = b.Epoch, b.Settings, false
	if len(b.Choice.Gates) > 0 && b.Cooldown == script.CooldownNone {
		n.gates = b.Choice.Gates
	}
}

// ask lets a node ask for jobs; without any it polls.
func (r *gatesRun) ask(n *gatesNode, jobs []Request, lost bool) {
	var unused []slots.Correction
	if len(jobs) > 0 {
		unused, n.refunds = slices.DeleteFunc(n.refunds, func(c slots.Correction) bool { return c.Epoch != n.epoch }), nil
	}
	b := r.reserve(n, jobs, unused, func(*script.Ask) {})
	if lost {
		return
	}
	n.learn(b)
	r.shut += len(b.Choice.Refused)
	r.noteBlocks(unused, b)
	units := int64(0)
	for _, one := range b.Choice.Granted {
		units += jobs[one.Job].Cost
		r.used(n, jobs[one.Job], one.At, b)
	}
	if units != b.Schedule.Given {
		r.t.Fatal(fmt.Errorf("got %d units for the jobs %v, want %d", units, b.Choice.Granted, b.Schedule.Given))
	}
}

// noteBlocks notes the blocks that a call passed on to Redis.
func (r *gatesRun) noteBlocks(passed []slots.Correction, b script.Reservation) {
	for _, c := range passed {
		if c.Blocks() && c.Epoch == b.Epoch && b.Cooldown == script.CooldownNone {
			until := c.Until
			if before := r.blocks[c.Blocked]; before.epoch == b.Epoch { // else its time is one of another clock
				until = max(until, before.until)
			}
			r.blocks[c.Blocked] = valueBlock{b.Epoch, until}
			r.held++
		}
	}
}

// blocked checks that no job passes a gate whose value is blocked at its slot.
func (r *gatesRun) blocked(job Request, slot, epoch int64) {
	for _, p := range job.Passes {
		if block := r.blocks[p.Value]; block.epoch == epoch && slot < block.until {
			r.broken = fmt.Sprintf("gate %d: a job %d µs before the end of a block", p.Gate, block.until-slot)
		}
	}
}

// used has a job called as late as its slot allows, or gives the slot back. Of a few the provider says
// that a value is to wait.
func (r *gatesRun) used(n *gatesNode, job Request, slot int64, b script.Reservation) {
	r.newest = &slots.Charge{Job: job, At: slot, Epoch: b.Epoch}
	r.blocked(job, slot, b.Epoch)
	if !r.keeps && len(job.Passes) > 0 && r.roll(10) == 0 {
		of := job.Passes[r.roll(int64(len(job.Passes)))].Value
		n.refunds = append(n.refunds, slots.Correction{Charge: r.newest, Called: true, Blocked: of, Until: slot + r.roll(500_000)})
	}
	if !r.keeps && r.roll(8) == 0 {
		n.refunds = append(n.refunds, slots.Correction{Charge: &slots.Charge{Job: job, At: slot, Epoch: b.Epoch}})
		return
	}
	r.count++
	at := slot - r.skew + r.late(b.Settings.Guard.Microseconds())
	if algorithm(r.algo).Ahead {
		of := Value{Gate: first}
		r.calls[of] = append(r.calls[of], gateCall{at, job.Cost, b.Settings.Terms})
	}
	for _, p := range job.Passes {
		r.calls[p.Value] = append(r.calls[p.Value], gateCall{at, job.Counts(p), n.gates[p.Gate].For(p.Hash, limit.FromMicros(b.Now))})
	}
}

// change is an operator who changes one of the limits.
func (r *gatesRun) change() {
	switch i := r.roll(5); i {
	case 0, 1:
		r.setTo(gateNames[i], parameters.Values{"cap": fmt.Sprint(r.set.LargestCost() + r.roll(5)), "max_cost": fmt.Sprint(1 + r.roll(r.set.LargestCost())), "window": []string{"400ms", "500ms", "1s"}[r.roll(3)]})
	case 2, 3:
		ends := time.Duration(0)
		if r.roll(2) == 0 {
			ends = control.MinOverride + time.Duration(r.roll(2_000))*time.Millisecond
		}
		r.except(gateNames[i-2], fmt.Sprint(r.roll(3)), []int64{0, r.set.LargestCost() + r.roll(8)}[min(1, r.roll(4))], ends)
	default:
		r.setTo("provider", []parameters.Values{{"guard": "10ms"}, {"guard": "40ms"}, {"cap": "20"}, {"cap": "30"}}[r.roll(4)])
	}
}

func (r *gatesRun) setTo(name string, values parameters.Values) {
	to, err := r.operator(name).Set(contextOf(r.t), control.Change{Values: values, By: "law", Force: true})
	r.changed(name, to, err)
}

// except gives a value a cap of its own; 0: takes it away.
func (r *gatesRun) except(name, value string, units int64, ends time.Duration) {
	to, err := r.operator(name).Except(contextOf(r.t), HashOf(value), units, control.Change{For: ends, By: "law", Force: true})
	r.changed(name, to, err)
}

func (r *gatesRun) operator(name string) *control.Control {
	operator, err := control.NewControl(r.rdb, "gates", name)
	if err != nil {
		r.t.Fatal(err)
	}
	return operator
}

// changed notes the terms that an operator has set.
func (r *gatesRun) changed(name string, to limit.Settings, err error) {
	if i := slices.Index(gateNames, name); err == nil { // first is what stands for none
		r.terms = append(r.terms, gateTerms{i, r.now, to})
	}
	if err != nil && !errors.Is(err, control.ErrUnchanged) && !errors.Is(err, control.ErrUnknownLimit) {
		r.t.Fatal(err)
	}
}

// one is a job that passes all gates.
func (r *gatesRun) one() []Request {
	return []Request{{Cost: r.set.LargestCost(), Passes: []Passed{{Value: Value{Gate: 0, Hash: HashOf("0")}}, {Value: Value{Gate: 1, Hash: HashOf("0")}}}}}
}

// pair are two jobs of one sender: the slots between theirs are skipped.
func (r *gatesRun) pair() []Request {
	sender := []Passed{{Value: Value{Gate: 0, Hash: HashOf("0")}}}
	return []Request{{Cost: 1, Passes: sender}, {Cost: 1, Passes: sender}}
}

// exhaust has the first node ask for jobs of one value again and again.
func (r *gatesRun) exhaust(us int64) {
	for end := r.now + us; r.now < end; r.pass(5_000) {
		r.ask(r.nodes[0], r.one(), false)
	}
}

// saturate has the first node ask for jobs that pass no gate again and again.
func (r *gatesRun) saturate(us int64) {
	for end := r.now + us; r.now < end; r.pass(10_000) {
		r.ask(r.nodes[0], []Request{{Cost: 1}}, false)
	}
}

// promote has another master go on with what this one had.
func (r *gatesRun) promote() { promote(r.t, r.rdb, script.KeysOf("gates", "provider").Limit) }

func (r *gatesRun) happen() {
	i := r.roll(int64(len(r.nodes)))
	n := r.nodes[i]
	switch p := r.roll(200); {
	case p < 3:
		s := limit.Slowdown{}
		if r.roll(3) > 0 {
			s = slowTo(r.set.Contract, float64(1+r.roll(150))/100, r.now)
		}
		putSlowdown(r.t, r.rdb, script.KeysOf("gates", "provider").Limit, s)
	case p < 120:
		r.ask(n, r.jobs(), r.roll(12) == 0)
	case p < 180:
		r.pass(r.roll([]int64{2_000, 20_000, 100_000}[r.roll(3)]))
	case p < 188:
		r.ask(n, nil, false)
	case p < 193:
		r.change()
	case p < 194:
		r.promote()
		r.pollAll()
	case p < 196: // killed
		r.nodes[i] = r.fresh()
		r.ask(r.nodes[i], nil, false)
	case p < 198 && r.mini != nil: // each node reports the step
		r.skew += []int64{-1, 1}[r.roll(2)] * r.roll(3_600_000_000)
		r.pass(0)
		for _, n := range r.nodes {
			n.stepped = true
		}
		r.pollAll()
		r.pass(3_000_000)
		r.pollAll()
	default:
		flush(r.t, r.rdb)
		r.pollAll()
		r.pass(3_000_000)
		r.pollAll()
	}
}

// over says where a gate was passed by more units than its cap; nothing if that was nowhere.
// In a window in which terms changed, the widest of them hold.
func (r *gatesRun) over() string {
	for passed, calls := range r.calls {
		slices.SortStableFunc(calls, func(a, b gateCall) int { return int(a.at - b.at) })
		for i := range calls {
			units, most, window := int64(0), int64(0), int64(1<<62)
			for _, c := range calls[i:] {
				window = min(window, c.terms.Window.Microseconds())
				for _, changed := range r.terms {
					if changed.gate == passed.Gate && changed.at > calls[i].at-limit.MaxHorizon.Microseconds() && changed.at < c.at {
						window, most = min(window, changed.set.Window.Microseconds()), max(most, changed.set.For(passed.Hash, limit.FromMicros(changed.at)).Cap)
					}
				}
				if c.at-calls[i].at >= window {
					break
				}
				units, most = units+c.units, max(most, c.terms.Cap)
				if units > most {
					return fmt.Sprintf("%s: %d units in %d µs, and %d may pass", append(gateNames, "provider")[(passed.Gate+3)%3], units, c.at-calls[i].at, most)
				}
			}
		}
	}
	return ""
}

func (r *gatesRun) play(ops int) string {
	for range ops {
		r.happen()
	}
	if r.broken != "" {
		return r.broken
	}
	return r.over()
}

func gateAlgorithms() []string {
	return []string{limit.TokenBucket, limit.SlidingWindowLog, limit.FixedWindow, limit.GCRA, limit.SlidingWindowCounter, limit.LeakyBucket}
}

// Whatever is lost, changed or given back, and whoever dies: no gate lets more units pass in
// a window than its cap, nor does the first limit, where its algorithm reserves ahead and slots are skipped.
func TestGatesKeepTheirCap(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	mini := miniredis.RunT(t)
	rdb := patient(t, mini.Addr())
	count, shut, held := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		roll := diceOf(rapid.Uint64().Draw(rt, "seed"))
		all := gateAlgorithms()
		algo := all[roll(int64(len(all)))]
		r := newGatesRun(rt, rdb, mini, algo, scriptOf(algo), roll)
		if algorithm(algo).Ahead && roll(3) == 0 {
			r.lanes = someShares(roll)
		}
		if over := r.play(250); over != "" {
			rt.Fatalf("%s: %s", r.algo, over)
		}
		count, shut, held = count+r.count, shut+r.shut, held+r.held
	})
	if count < 100 || shut < 100 || held < 20 {
		t.Errorf("got %d calls, %d refusals and %d blocks; so few prove nothing", count, shut, held)
	}
}

// A clock that is set back leaves no time ahead of it for which a gate waits.
func TestAGateGoesOnAfterTheClockWasSetBack(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	mini := miniredis.RunT(t)
	r := newGatesRun(t, patient(t, mini.Addr()), mini, limit.TokenBucket, scriptOf(limit.TokenBucket), diceOf(1))
	flush(t, r.rdb)
	r.skew = time.Hour.Microseconds()
	r.pass(0)
	r.pollAll() // the gates begin by a clock that is an hour ahead
	r.skew = 0
	for range 3 {
		r.pass(3_000_000)
		r.pollAll()
	}
	before := r.count
	r.exhaust(2_000_000)
	if r.count == before {
		t.Error("got no call in 2 s that passes a gate, 9 s after the clock was set back by an hour")
	}
}

func TestGatesKeepTheirCapReal(t *testing.T) {
	t.Parallel()
	server := containers.Redis(t)
	r := newGatesRun(t, patient(t, server.Addr), nil, limit.TokenBucket, scriptOf(limit.TokenBucket), diceOf(1))
	few := func() bool { return r.count < 100 || r.shut < 100 || r.held == 0 }
	for ops := 0; ops < 1_000 || few() && ops < 4_000; ops += 500 { // real time passes between them, so no two runs are alike
		if over := r.play(500); over != "" {
			t.Fatal(over)
		}
	}
	if few() {
		t.Errorf("got %d calls, %d refusals and %d blocks; so few prove nothing", r.count, r.shut, r.held)
	}
}

// The law has teeth.
func TestGatesLawBreaksWithout(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, m := range []struct {
		rule, from, to string
		first          uint64          // history: none before it breaks the law
		play           func(*gatesRun) // nil: random histories find it
	}{
		{rule: "the gap behind a unit", from: "return math.ceil(units * (gate.window", to: "return math.ceil(0 * (gate.window"},
		{rule: "the units of a job", from: "return math.ceil(units * (gate.window", to: "return math.ceil(1 * (gate.window"},
		{rule: "the guard", from: "units * (gate.window + widest)", to: "units * gate.window"},
		{rule: "the largest job", from: "(gate.cap - gate.max_cost + 1)", to: "gate.cap"},
		{rule: "jobs of the same call", from: "if i or AHEAD then picking.pass(job, plan.times) end", to: ""},
		{rule: "the state", from: "redis.call('SET', KEYS[6 + 4 * GATES + i], text", to: "redis.call('SET', KEYS[6 + 4 * GATES + i] .. 'x', text"},
		{rule: "who relies on a slot that is given back", from: "units > 0 and (newest_slot ~= slot or units > count)", to: "units > 0 and units > count", play: func(r *gatesRun) {
			for range 20 {
				r.exhaust(50_000)
				r.nodes[0].refunds = []slots.Correction{{Charge: &slots.Charge{Job: r.one()[0], At: 1, Epoch: r.nodes[0].epoch}}}
			}
		}},
		{rule: "the slot of a job that was given back", from: "return states.keep(i, newest_slot, math.max(", to: "if units == count then return nil end\n  return states.keep(i, newest_slot, math.max("},
		{rule: "the block of a value", from: "return math.max(gate.from, till, slot", to: "return math.max(gate.from, slot"},
		{rule: "the grant before a block", from: "states.keep(i, slot or 0, units or 1, max_cost, till)", to: "states.keep(i, 0, units or 1, max_cost, till)", play: func(r *gatesRun) {
			r.late = func(int64) int64 { return 0 }
			for range 20 {
				r.ask(r.nodes[0], r.pair()[:1], false)
				r.nodes[0].refunds = []slots.Correction{{Charge: r.newest, Called: true, Blocked: r.newest.Job.Passes[0].Value, Until: r.newest.At + 1_000}}
				r.pass(1_000)
				r.ask(r.nodes[0], r.pair()[:1], false)
				r.pass(10_000)
			}
		}},
		{rule: "that a block outlives a slot that is given back", from: "math.min(count - units, most)), max_cost, till)", to: "math.min(count - units, most)), max_cost)", play: func(r *gatesRun) {
			for range 20 {
				r.ask(r.nodes[0], r.one(), false)
				block := slots.Correction{Charge: r.newest, Called: true, Blocked: r.one()[0].Passes[0].Value, Until: r.now + 2_000_000}
				r.nodes[0].refunds = []slots.Correction{block, {Charge: r.newest}}
				r.exhaust(100_000)
				r.pass(3_000_000)
			}
		}},
		{rule: "that a skipped slot goes once", from: "from, k = jobs[k].first + jobs[k].units, k + 1", to: "from, k = jobs[k].first, k + 1"},
		{rule: "that all slots of a job go once", first: 22, from: "from, k = jobs[k].first + jobs[k].units, k + 1", to: "from, k = jobs[k].first + 1, k + 1"},
		{rule: "that numbers move with the timeline", first: 11, from: "int(skipped[i].from - turned * c.units)", to: "int(skipped[i].from)", play: func(r *gatesRun) {
			for range 20 {
				r.ask(r.nodes[0], r.pair(), false)
				r.pass(60_000)
			}
			r.saturate(1_500_000)
		}},
		{rule: "that jobs of a call take different slots", first: 28, from: "    picking.occupy(plan.runs, i, from, job.units)\n", to: ""},
		{rule: "that a run has a slot for each unit of a job", from: "and from + units <= some.to then", to: "then", play: func(r *gatesRun) {
			for range 12 {
				r.ask(r.nodes[0], r.pair(), false)
				for range 2 {
					r.ask(r.nodes[0], []Request{{Cost: r.set.LargestCost()}}, false)
				}
				r.pass(150_000)
			}
		}},
		{rule: "that slots skipped under other terms go", from: "if tonumber(base) ~= c.base then return runs end", to: "", play: func(r *gatesRun) {
			r.late = func(int64) int64 { return 0 }
			r.ask(r.nodes[0], r.pair(), false)
			r.setTo("provider", parameters.Values{"guard": "40ms"})
			r.late = func(guard int64) int64 { return guard }
			r.ask(r.nodes[0], []Request{{Cost: 1}}, false)
			r.late = func(int64) int64 { return 0 }
			r.saturate(1_200_000)
		}},
		{rule: "the time that a gate names", from: "offer.first_at(at), job.units)", to: "offer.first_at(at - 20000), job.units)"},
		{rule: "a guard that was wider", from: "return before and now <", to: "return nil and now <", play: func(r *gatesRun) {
			r.setTo("provider", parameters.Values{"guard": "40ms"})
			r.pollAll()
			r.pass(2_000_000)
			r.late = func(guard int64) int64 { return guard }
			r.exhaust(500_000)
			r.setTo("provider", parameters.Values{"guard": "10ms"})
			r.late = func(int64) int64 { return 0 }
			r.exhaust(2_000_000)
		}},
		{rule: "the wait behind an epoch's begin", from: "math.max(from, tonumber(current) + HORIZON + 2 * widest + gate.window)", to: "from", play: func(r *gatesRun) {
			r.setTo("recipient", parameters.Values{"window": "1s"})
			r.pollAll()
			r.pass(2_000_000)
			r.exhaust(100_000)
			r.promote()
			r.exhaust(2_000_000)
		}},
		{rule: "the gap before larger jobs", first: 4, from: "slot + math.min(gap(gate, units + gate.max_cost), gate.window + widest)", to: "at", play: func(r *gatesRun) {
			r.late = func(int64) int64 { return 0 }
			r.letLargerIn()
		}},
		{rule: "the cap of one value", from: "if not gate.exceptions then return gate end", to: "if gate then return gate end", play: func(r *gatesRun) {
			r.setTo("recipient", parameters.Values{"cap": "10"})
			r.except("recipient", "0", r.set.LargestCost(), 0)
			r.pollAll()
			r.pass(2_000_000)
			r.exhaust(1_000_000)
		}},
		{rule: "the end of one value's cap", from: "now >= tonumber(till)", to: "now < 0", play: func(r *gatesRun) {
			r.except("recipient", "0", 20, time.Second)
			r.except("sender", "0", 20, 0)
			r.pollAll()
			r.pass(4_000_000)
			r.exhaust(1_000_000)
		}},
		{rule: "the epoch of the states", from: "local stale = epoch ~= current", to: "local stale = false", play: func(r *gatesRun) {
			r.nodes = append(r.nodes, r.fresh())
			r.ask(r.nodes[len(r.nodes)-1], nil, false)
			r.promote()
			r.ask(r.nodes[0], nil, false)
			r.pass(2_000_000)
			r.ask(r.nodes[len(r.nodes)-1], r.one(), false) // it has not heard of the promotion
			r.ask(r.nodes[0], r.one(), false)
		}},
	} {
		t.Run(m.rule, func(t *testing.T) {
			t.Parallel()
			text := without(t, scriptOf(limit.TokenBucket), m.from, m.to)
			mini := miniredis.RunT(t)
			rdb := patient(t, mini.Addr())
			findHistory(t, m.first, 300, func(roll dice) string {
				r := newGatesRun(t, rdb, mini, limit.TokenBucket, text, roll)
				ops := 250
				if m.play != nil {
					r.keeps, ops = true, 0
					m.play(r)
				}
				return r.play(ops)
			})
		})
	}
}

// A job that a gate refuses learns until when, and others get the slots. A slot that is not
// used lets the next job of its value pass at once.
func TestAGateRefusesAJobAndNoOther(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	l, err := New(Options{
		Redis: patient(t, mini.Addr()), Namespace: "ns", Name: "account", Node: "n", Identity: IdentityNone, Limit: specOf(late(300)),
		Gates: []Gate{{Name: "recipient", Limit: specOf(contract(1))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, l)
	to := func(name string) Request {
		return Request{Cost: 1, Passes: []Passed{{Value: Value{Gate: 0, Hash: HashOf(name)}}}}
	}
	ask := func(jobs ...Request) []Answer {
		t.Helper()
		for {
			if _, err := l.Turn(t.Context(), OneLane, nil); err != nil {
				t.Fatal(err)
			}
			answers, err := l.Reserve(t.Context(), jobs)
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(answers, func(a Answer) bool { return !a.Slot.IsZero() }) {
				return answers
			}
		}
	}
	// The first slot after the start may be the only one within the horizon.
	if err := ask(to("another"))[0].Slot.Wait(t.Context()); err != nil && !errors.Is(err, ErrLate) {
		t.Fatal(err)
	}
	answers := ask(to("a"), to("a"), to("b"))
	first, second, third := answers[0], answers[1], answers[2]
	if first.Slot.IsZero() || !second.Slot.IsZero() || third.Slot.IsZero() {
		t.Fatalf("got %+v, want slots for the first job and for the third", answers)
	}
	if wait := second.Until.Sub(first.Slot.NotBefore); wait < time.Second || wait > 1200*time.Millisecond {
		t.Errorf("got a refusal until %v behind the slot of the same value, want the window and the guard, 1.1 s", wait)
	}
	l.Unused(first.Slot)
	begun := time.Now()
	if again := ask(to("a")); again[0].Slot.NotBefore.Sub(begun) > 500*time.Millisecond {
		t.Errorf("got %+v once the slot was given back, want a slot at once", again)
	}
}

func TestOptionsOfGates(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	rdb := patient(t, mini.Addr())
	gate := func(change func(*limit.Spec)) Gate {
		s := specOf(contract(5))
		change(&s)
		return Gate{Name: "recipient", Limit: s}
	}
	for _, row := range []struct {
		change func(*limit.Spec)
		want   string
	}{
		{func(*limit.Spec) {}, ""},
		{func(s *limit.Spec) { s.Window = time.Hour }, `gate "recipient": window: 1h0m0s: must be from 1ms to 1m`},
		{func(s *limit.Spec) { s.Burst = 2 }, `gate "recipient": burst: 2: must be 1`},
		{func(s *limit.Spec) { s.Algorithm = limit.GCRA }, `gate "recipient": algorithm: "gcra": must be token_bucket`},
		{func(s *limit.Spec) { s.MaxInFlight = 2 }, `gate "recipient": max_in_flight: 2: must be 0`},
		{func(s *limit.Spec) { s.Scope = limit.ScopeNode }, `gate "recipient": scope: "node": must be cluster`},
		{func(s *limit.Spec) { s.Capacity = 2 }, `gate "recipient": capacity: 2: is for algorithm leaky_bucket only`},
	} {
		stated := []Gate{gate(row.change)}
		l, err := New(Options{Redis: rdb, Namespace: "ns", Name: "account", Limit: specOf(contract(300)), Gates: stated})
		switch {
		case row.want != "" && (err == nil || err.Error() != row.want && !strings.HasPrefix(err.Error(), row.want)):
			t.Errorf("got %v, want %s", err, row.want)
		case row.want == "" && (err != nil || !l.opts.Gates[0].Limit.Gate || stated[0].Limit.Gate):
			t.Errorf("got %v, want the gate marked as one, and not the caller's", err)
		}
	}
	first := specOf(contract(300))
	first.Gate = true
	if _, err := New(Options{Redis: rdb, Namespace: "ns", Name: "account", Limit: first}); err == nil || !strings.Contains(err.Error(), `limit: "account": is a gate`) {
		t.Errorf("got %v, want the first limit refused", err)
	}
}

// The spacing of a gate follows from the guard of the first limit that is in force.
func TestTheSpacingOfAGateHasTheGuardOfTheFirstLimit(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	rdb := patient(t, mini.Addr())
	l, err := New(Options{
		Redis: rdb, Namespace: "ns", Name: "account", Node: "n", Identity: IdentityNone, Limit: specOf(late(300)),
		Gates: []Gate{{Name: "recipient", Limit: specOf(contract(1))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, l)
	if _, err := l.Turn(t.Context(), OneLane, nil); err != nil {
		t.Fatal(err)
	}
	spacing := func() time.Duration { return l.GateSpacing(Value{Gate: 0, Hash: HashOf("one")}, time.Now()) }
	if got := spacing(); got != 1100*time.Millisecond {
		t.Errorf("got %s, want the window and the guard", got)
	}
	for _, row := range []struct {
		name, value string
		want        time.Duration
	}{{"account", "40ms", 1040 * time.Millisecond}, {"recipient", "500ms", 540 * time.Millisecond}} {
		operator, err := control.NewControl(rdb, "ns", row.name)
		if err != nil {
			t.Fatal(err)
		}
		setting := map[string]string{"account": "guard", "recipient": "window"}[row.name]
		if _, err := operator.Set(t.Context(), control.Change{Values: parameters.Values{setting: row.value}}); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(30 * time.Second); spacing() != row.want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: got %s, want %s", row.name, spacing(), row.want)
			}
		}
	}
}

// letLargerIn raises max_cost behind units that lie closer to each other than those of larger
// jobs do.
func (r *gatesRun) letLargerIn() {
	ask := func(cost, us int64) {
		for end := r.now + us; r.now < end; r.pass(2_000) {
			r.ask(r.nodes[0], []Request{{Cost: cost, Passes: []Passed{{Value: Value{Gate: 1, Hash: HashOf("0")}}}}}, false)
		}
	}
	r.setTo("recipient", parameters.Values{"cap": "10", "window": "1s", "max_cost": "1"})
	r.pollAll()
	r.pass(3_000_000)
	ask(1, 2_000_000)
	r.setTo("recipient", parameters.Values{"max_cost": "2"})
	ask(2, 2_000_000)
}

func TestAGateKeepsItsCapWhenLargerJobsAreLetIn(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	mini := miniredis.RunT(t)
	r := newGatesRun(t, patient(t, mini.Addr()), mini, limit.TokenBucket, scriptOf(limit.TokenBucket), func(int64) int64 { return 1 })
	r.keeps, r.late = true, func(int64) int64 { return 0 }
	r.letLargerIn()
	if over := r.over(); over != "" {
		t.Error(over)
	}
	if r.count < 20 {
		t.Errorf("got %d calls; so few prove nothing", r.count)
	}
}

// A value with a larger cap of its own gets it, and no other does. Callers learn its spacing.
func TestAnExceptionIsForOneValue(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	mini := miniredis.RunT(t)
	r := newGatesRun(t, patient(t, mini.Addr()), mini, limit.TokenBucket, scriptOf(limit.TokenBucket), func(int64) int64 { return 1 })
	r.keeps = true
	r.setTo("recipient", parameters.Values{"cap": "2", "window": "1s", "max_cost": "1"})
	r.except("recipient", "0", 20, 0)
	r.pollAll()
	r.pass(2_000_000)
	begin := r.now
	for end := r.now + 3_000_000; r.now < end; r.pass(2_000) {
		r.ask(r.nodes[0], []Request{
			{Cost: 1, Passes: []Passed{{Value: Value{Gate: 1, Hash: HashOf("1")}}}},
			{Cost: 1, Passes: []Passed{{Value: Value{Gate: 1, Hash: HashOf("0")}}}},
		}, false)
	}
	since := func(value string) (n int) {
		for _, c := range r.calls[Value{Gate: 1, Hash: HashOf(value)}] {
			if c.at >= begin {
				n++
			}
		}
		return n
	}
	if own, other := since("0"), since("1"); own < 54 || other > 7 || other < 5 {
		t.Errorf("got %d calls with the value's own cap of 20 and %d with the gate's of 2, in 3 s", own, other)
	}
	if over := r.over(); over != "" {
		t.Error(over)
	}
	l := &Limiter{gates: gatesKnown(r.nodes[0].gates, r.set)}
	own, other := l.GateSpacing(Value{Gate: 1, Hash: HashOf("0")}, time.Now()), l.GateSpacing(Value{Gate: 1, Hash: HashOf("1")}, time.Now())
	if own*10 > other+time.Millisecond || own*10 < other-time.Millisecond {
		t.Errorf("got a spacing of %s for the value and %s for others, want a tenth", own, other)
	}
}
