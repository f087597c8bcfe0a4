package throttle

import (
	"bytes"
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
	"dispatcher/throttle/limit/quota"
)

// quotaRun is a fleet whose jobs count on quotas, around the real script, in simulated time.
// Nodes ask, lose replies, give slots back, die and come. Redis forgets, and its clock steps. One node at
// least stays.
type quotaRun struct {
	redisTime

	t     tester
	rdb   redis.UniversalClient
	text  string
	roll  dice
	nodes []*quotaNode
	named int
	calls map[Value][]int64 // when units came to the provider; of the calendar's quotas by Redis's clock
	shut  int               // jobs that a quota refused
	late  func() int64      // by how much a call begins after its slot
	keeps bool              // no slot is given back
}

// quotaNode is a node that remembers what a reserving goroutine does.
type quotaNode struct {
	*reserver

	scripts script.Scripts
}

const (
	wholeQuota   = iota // a minute of the calendar, all jobs together
	keyedQuota          // a minute of the calendar, by a key
	rollingQuota        // any minute, all jobs together
	shortQuota          // any second, likewise
	longQuota           // any two minutes, likewise; in no random history
	valuedQuota         // any minute, by a key; likewise
	quotaCap     = 40
)

func quotaGates() []Gate {
	gates := []Gate{{Name: "whole"}, {Name: "keyed", Keyed: true}, {Name: "rolling"}, {Name: "short"}, {Name: "long"}, {Name: "valued", Keyed: true}}
	for i := range gates {
		spec := specOf(contract(quotaCap))
		spec.Window, spec.MaxCost, spec.Calendar = 0, 3, "minute"
		switch i {
		case keyedQuota:
			spec.OnLost = quota.LostWait
		case rollingQuota:
			spec.Calendar, spec.Rolling = "", time.Minute
		case shortQuota:
			spec.Calendar, spec.Rolling = "", time.Second
		case longQuota:
			spec.Calendar, spec.Rolling = "", 2*time.Minute
		case valuedQuota:
			spec.Calendar, spec.Rolling, spec.OnLost = "", time.Minute, quota.LostOpen
		}
		gates[i].Limit = limit.Spec{Terms: spec.Beside(specOf(contract(300)).Terms)}
	}
	return gates
}

func newQuotaRun(t tester, rdb redis.UniversalClient, mini *miniredis.Miniredis, text string, roll dice) *quotaRun {
	t.Helper()
	flush(t, rdb)
	r := &quotaRun{redisTime: redisTime{mini: mini, now: 1_700_000_000_000_000}, t: t, rdb: rdb, text: text, roll: roll, calls: map[Value][]int64{}}
	r.late = func() int64 { return r.roll(limit.DefaultGuard.Microseconds() + 1) }
	r.pass(0)
	for range 2 + roll(2) {
		r.nodes = append(r.nodes, r.fresh())
	}
	r.settle()
	r.pass(61_000_000) // rolling quotas wait for their window
	r.settle()
	return r
}

func (r *quotaRun) fresh() *quotaNode {
	r.named++
	c := contract(300)
	c.MaxCost = 3
	l, err := New(Options{Redis: r.rdb, Namespace: "quotas", Name: "provider", Limit: specOf(c), Gates: quotaGates()})
	if err != nil {
		r.t.Fatal(err)
	}
	n := &quotaNode{scripts: script.NewScripts(r.rdb, "quotas", "provider", fmt.Sprint("node", r.named))}
	n.reserver = &reserver{Limiter: l, lanes: make([]lane, 1), known: l.State().Settings, kind: algorithm(limit.TokenBucket), seq: 1}
	n.scripts.Reserving[limit.TokenBucket] = redis.NewScript(r.text)
	return n
}

// settle lets all nodes poll, and what a cooldown begins pass.
func (r *quotaRun) settle() {
	for range 3 {
		for _, n := range r.nodes {
			r.ask(n, nil, false)
		}
		r.pass(1_500_000)
	}
}

// step has Redis's clock differ by so many µs from the true time. All nodes see that.
func (r *quotaRun) step(skew int64) {
	r.skew = skew
	r.pass(0)
	for _, n := range r.nodes {
		n.stepped = true
	}
	r.settle()
}

// job counts so many units on one quota.
func job(quota int, value string, units int64) Request {
	if quota != keyedQuota && quota != valuedQuota {
		value = ""
	}
	return Request{Cost: units, Passes: []Passed{{Value: Value{Gate: quota, Hash: HashOf(value)}}}}
}

func (r *quotaRun) jobs() []Request {
	all := make([]Request, 1+r.roll(8))
	for i := range all {
		all[i] = job(int(r.roll(4)), fmt.Sprint(r.roll(2)), 1+r.roll(3))
		if r.roll(3) == 0 && all[i].Passes[0].Gate != rollingQuota {
			all[i].Passes = append(all[i].Passes, job(rollingQuota, "", 1).Passes...)
		}
	}
	return all
}

// ask lets a node ask for jobs; without any it polls.
func (r *quotaRun) ask(n *quotaNode, jobs []Request, lost bool) {
	n.redisNow, n.answeredAt = r.now+r.skew, time.Now()
	var unused []slots.Correction
	if len(jobs) > 0 {
		unused = n.corrections.Take(n.clock.Epoch, n.gates.Outlives)
	}
	asked := make([]request, len(jobs))
	for i, job := range jobs {
		asked[i] = request{Request: job, answer: &Answer{}}
	}
	b, err := n.scripts.Reserve(contextOf(r.t), script.Ask{
		Want: unitsOf(asked), Costs: costsOf(asked), Seq: n.seq, Epoch: n.clock.Epoch, Gates: n.gatesOf(asked, unused),
		Identity: string(IdentityNone), Nearest: nearest, Learned: n.clock.Epoch != 0, Stepped: n.stepped, Known: n.known,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if r.mini == nil {
		r.now = max(r.now, b.Now)
	}
	if len(jobs) > 0 {
		n.seq++
	}
	if !lost {
		if b.Epoch != n.clock.Epoch {
			n.corrections.Unheeded(unused)
		}
		n.clock.Epoch, n.known, n.stepped = b.Epoch, b.Settings, false
		n.gates.Take(script.Choice{Quotas: b.Choice.Quotas}, b.Now, n.known.Terms)
		r.shut += len(b.Choice.Refused)
	}
	for _, one := range b.Choice.Granted {
		i, slot := one.Job, one.At
		switch {
		case lost: // its slots are not used
		case !r.keeps && r.roll(8) == 0:
			n.corrections.GiveBack(&slots.Charge{Job: jobs[i], At: slot, Epoch: b.Epoch})
		case !r.keeps && jobs[i].Cost > 1 && r.roll(4) == 0: // the provider counts fewer
			counted := jobs[i]
			counted.Cost = 1 + r.roll(counted.Cost-1)
			n.Reconcile(n.charged(jobs[i], slot, b.Epoch), jobs[i], counted.Cost)
			r.use(counted, slot+r.late())
		default:
			r.use(jobs[i], slot+r.late())
		}
	}
}

func (r *quotaRun) use(job Request, byRedis int64) {
	for _, p := range job.Passes {
		at := byRedis
		if quotaGates()[p.Gate].Limit.Rolling > 0 {
			at -= r.skew
		}
		r.calls[p.Value] = append(r.calls[p.Value], slices.Repeat([]int64{at}, int(job.Counts(p)))...)
	}
}

func (r *quotaRun) happen() {
	i := r.roll(int64(len(r.nodes)))
	n := r.nodes[i]
	switch p := r.roll(200); {
	case p < 110:
		r.ask(n, r.jobs(), r.roll(12) == 0)
	case p < 170:
		r.pass(r.roll([]int64{2_000, 100_000, 4_000_000, 20_000_000}[r.roll(4)]))
	case p < 190:
		r.ask(n, nil, false)
	case p < 194 && len(r.nodes) > 1: // one joins for another that stops
		for _, n := range r.nodes {
			r.ask(n, nil, false)
		}
		r.nodes[i] = r.fresh()
		r.settle()
	case p < 196:
		r.promote()
		r.settle()
	case p < 198:
		if r.roll(2) == 0 { // the other master's clock
			r.promote()
		}
		r.step([]int64{0, 500_000, 5_000_000, 40_000_000}[r.roll(4)])
	default:
		flush(r.t, r.rdb)
		r.settle()
	}
}

// promote has another master go on with what this one had.
func (r *quotaRun) promote() { promote(r.t, r.rdb, script.KeysOf("quotas", "provider").Limit) }

// exhaust has a node ask for jobs of one quota until that grants none for a second.
func (r *quotaRun) exhaust(n *quotaNode, quota int) {
	value, none := job(quota, "0", 1).Passes[0].Value, 0
	for calls := 0; none < 100; r.pass(10_000) {
		r.ask(n, slices.Repeat([]Request{job(quota, "0", 1)}, 3), false)
		if none++; len(r.calls[value]) > calls {
			calls, none = len(r.calls[value]), 0
		}
	}
}

// toBound lets time pass until so many µs before a minute begins.
func (r *quotaRun) toBound(before int64) {
	const minute = 60_000_000
	r.pass((2*minute - r.now%minute - before) % minute)
}

// over says where a quota was passed; nothing if that was nowhere.
func (r *quotaRun) over() string {
	const minute = 60_000_000
	for value, calls := range r.calls {
		if window := quotaGates()[value.Gate].Limit.Rolling; window > 0 {
			if most := fullest(calls, window); most > quotaCap {
				return fmt.Sprintf("rolling: %d units in %s", most, window)
			}
			continue
		}
		counts := map[int64]int{}
		for _, at := range calls {
			if counts[at/minute]++; counts[at/minute] > quotaCap {
				return fmt.Sprintf("%s: %d units in a minute of the calendar", quotaGates()[value.Gate].Name, counts[at/minute])
			}
		}
	}
	return ""
}

func (r *quotaRun) play(ops int) string {
	for range ops {
		r.happen()
	}
	return r.over()
}

// Whatever is lost or given back, and whoever comes and goes: no window of a quota holds more
// than its cap.
func TestQuotasKeepTheirCap(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	mini := miniredis.RunT(t)
	rdb := patient(t, mini.Addr())
	calls, shut := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		r := newQuotaRun(rt, rdb, mini, scriptOf(limit.TokenBucket), diceOf(rapid.Uint64().Draw(rt, "seed")))
		if over := r.play(120); over != "" {
			rt.Fatal(over)
		}
		shut += r.shut
		for _, at := range r.calls {
			calls += len(at)
		}
	})
	if calls < 100 || shut < 100 {
		t.Errorf("got %d units, and %d refusals; so few prove nothing", calls, shut)
	}
}

func TestQuotasKeepTheirCapReal(t *testing.T) {
	t.Parallel()
	r := newQuotaRun(t, patient(t, containers.Redis(t).Addr), nil, scriptOf(limit.TokenBucket), diceOf(1))
	r.keeps = true
	for quota := range 3 {
		r.exhaust(r.nodes[0], quota)
	}
	flush(t, r.rdb)
	r.settle()
	for quota := range 3 {
		r.exhaust(r.nodes[1], quota)
	}
	if over := r.over(); over != "" {
		t.Error(over)
	}
}

// The law has teeth.
func TestQuotasLawBreaksWithout(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	forgets := func(quota int) func(*quotaRun) {
		return func(r *quotaRun) {
			r.toBound(50_000_000)
			r.exhaust(r.nodes[0], quota)
			flush(r.t, r.rdb)
			r.settle()
			r.exhaust(r.nodes[1], quota)
		}
	}
	for _, m := range []struct {
		rule, from, to string
		play           func(*quotaRun) // nil: random histories find it
	}{
		{rule: "the count", from: "n.granted = n.granted + units", to: "n.granted = n.granted + 1"},
		{rule: "the units that this call takes", from: "times[i] = owner[i].quota and times[i] + units or job.slot", to: "times[i] = owner[i].quota and times[i] or job.slot"},
		{rule: "the window of a slot", from: "if quotas.spent(gate, tally, id, slot) + units > gate.cap then return false end", to: ""},
		{rule: "what is given back once", from: "n.returned = n.returned + units", to: "n.returned = n.returned + 2 * units"},
		{rule: "a part that is still in the window", from: "math.floor((slot - gate.rolling - widest) / gate.part)", to: "math.floor((slot - gate.rolling / 2) / gate.part)"},
		{rule: "the other side of a bound", from: "if b[i + 2] and slot >= b[i + 1] - widest then", to: "if false then", play: func(r *quotaRun) {
			r.late = func() int64 { return limit.DefaultGuard.Microseconds() }
			r.toBound(8_000)
			r.ask(r.nodes[0], slices.Repeat([]Request{job(wholeQuota, "", 1)}, 3), false)
			r.pass(500_000)
			r.exhaust(r.nodes[0], wholeQuota)
		}},
		{rule: "what the nodes remember", from: "  return lost\n", to: "  return false\n", play: forgets(wholeQuota)},
		{rule: "what the nodes remember of a rolling quota", from: "tally[id].granted < mine.granted then tally[id], lost = mine, true end", to: "tally[id].granted < mine.granted then lost = true end\n    tally[id] = tally[id] or {granted = 0, returned = 0}", play: forgets(longQuota)},
		{rule: "the wait for all nodes", from: "local at = tonumber(current or 0) + HORIZON + math.max(learn, window)", to: "local at = 0", play: func(r *quotaRun) {
			r.toBound(50_000_000)
			r.exhaust(r.nodes[0], wholeQuota)
			r.promote()
			r.rdb.Del(contextOf(r.t), script.KeysOf("quotas", "provider").Quota("whole", quota.Quota{Calendar: "minute"}, script.Whole()))
			for range 40 {
				r.ask(r.nodes[1], []Request{job(wholeQuota, "", 1)}, false)
				r.pass(10_000)
			}
			r.settle()
			r.exhaust(r.nodes[1], wholeQuota)
		}},
		{rule: "the wait of a quota with a key", from: "if gate.on_lost ~= 'wait' or lost_at == 0 or gate.seeded", to: "if true or gate.seeded", play: forgets(keyedQuota)},
	} {
		t.Run(m.rule, func(t *testing.T) {
			t.Parallel()
			mini := miniredis.RunT(t)
			rdb := patient(t, mini.Addr())
			find := func(text string, runs uint64) string {
				for seed := range runs {
					r := newQuotaRun(t, rdb, mini, text, diceOf(seed))
					ops := 250
					if m.play != nil {
						r.keeps, r.late, ops = true, func() int64 { return 0 }, 0
						m.play(r)
					}
					if over := r.play(ops); over != "" {
						return over
					}
				}
				return ""
			}
			if over := find(scriptOf(limit.TokenBucket), 1); over != "" {
				t.Errorf("with the rule: %s", over)
			}
			if over := find(without(t, scriptOf(limit.TokenBucket), m.from, m.to), 200); over == "" {
				t.Error("nothing was found")
			}
		})
	}
}

// playedQuotas is a run on the embedded Redis whose history a test states.
func playedQuotas(t *testing.T) *quotaRun {
	t.Helper()
	mini := miniredis.RunT(t)
	return newQuotaRun(t, patient(t, mini.Addr()), mini, scriptOf(limit.TokenBucket), diceOf(1))
}

// exhaustBeforeFailover has a node use a whole quota. Then a replica takes over that knows of the
// first unit alone.
func (r *quotaRun) exhaustBeforeFailover(n *quotaNode) {
	r.toBound(50_000_000)
	r.ask(n, []Request{job(wholeQuota, "", 1)}, false)
	key := script.KeysOf("quotas", "provider").Quota("whole", quota.Quota{Calendar: "minute"}, script.Whole())
	old, err := r.mini.Get(key)
	if err != nil {
		r.t.Fatal(err)
	}
	r.exhaust(n, wholeQuota)
	r.promote()
	if err := r.mini.Set(key, old); err != nil {
		r.t.Fatal(err)
	}
}

// A replica that takes over may know less. A reservation that comes before a poll does not make
// its node forget.
func TestAQuotaSurvivesAReplicaThatKnowsLess(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	r := playedQuotas(t)
	r.keeps, r.late = true, func() int64 { return 0 }
	n := r.nodes[0]
	r.exhaustBeforeFailover(n)
	for range 3 {
		r.ask(n, []Request{job(wholeQuota, "", 1)}, false)
		r.pass(100_000)
	}
	r.settle()
	r.exhaust(r.nodes[1], wholeQuota)
	if over := r.over(); over != "" {
		t.Error(over)
	}
}

// While jobs wait, the whole quota is used, of a rolling one its share.
func TestQuotasAreUsed(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	r := playedQuotas(t)
	r.keeps = true
	r.toBound(-1_000)
	const minutes = 4
	for end := r.now + minutes*60_000_000; r.now < end; r.pass(200_000) {
		for _, n := range r.nodes {
			r.ask(n, []Request{job(wholeQuota, "", 1), job(rollingQuota, "", 1), job(keyedQuota, "0", 1)}, false)
		}
	}
	for quota, least := range []int{wholeQuota: minutes * quotaCap, keyedQuota: minutes * quotaCap, rollingQuota: (minutes - 1) * quotaCap} {
		value := job(quota, "0", 1).Passes[0].Value
		if got := len(r.calls[value]); got < least {
			t.Errorf("%s: got %d units in %d minutes, want %d at least", quotaGates()[quota].Name, got, minutes, least)
		}
	}
	if over := r.over(); over != "" {
		t.Error(over)
	}
}

// A rolling quota of a second is used in bursts, and whole.
func TestAShortQuotaIsUsed(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	r := playedQuotas(t)
	r.keeps = true
	const seconds = 5
	for end := r.now + seconds*1_000_000; r.now < end; r.pass(10_000) {
		r.ask(r.nodes[0], slices.Repeat([]Request{job(shortQuota, "", 1)}, 10), false)
	}
	if got, least := len(r.calls[job(shortQuota, "", 1).Passes[0].Value]), int(0.95*seconds*quotaCap); got < least {
		t.Errorf("got %d units in %d s, want %d at least", got, seconds, least)
	}
	if over := r.over(); over != "" {
		t.Error(over)
	}
}

// A quota that is used up names the end of its window, and its jobs hold up no others.
func TestAQuotaNamesTheEndOfItsWindow(t *testing.T) {
	t.Parallel()
	r := playedQuotas(t)
	r.toBound(3_000_000)
	r.exhaust(r.nodes[0], wholeQuota)
	n := r.nodes[0]
	n.redisNow, n.answeredAt = r.now, time.Now()
	asked := []request{{Request: job(wholeQuota, "", 1)}, {Request: job(rollingQuota, "", 1)}}
	b, err := n.scripts.Reserve(t.Context(), script.Ask{
		Want: 2, Costs: []int64{1, 1}, Seq: 1_000, Epoch: n.clock.Epoch, Gates: n.gatesOf(asked, nil), Identity: string(IdentityNone), Nearest: nearest, Learned: true, Known: n.known,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Choice.Granted) != 1 || b.Choice.Granted[0].Job != 1 || len(b.Choice.Refused) != 1 {
		t.Fatalf("got %+v, want the second job granted and the first refused", b.Choice)
	}
	if bound := r.now - r.now%60_000_000 + 60_000_000; b.Choice.Refused[0].At < bound || b.Choice.Refused[0].At > bound+limit.DefaultGuard.Microseconds() {
		t.Errorf("got %d, want the bound at %d", b.Choice.Refused[0].At, bound)
	}
}

// loggedQuotas are played quotas with what the log says of the gates of the first node.
func loggedQuotas(t *testing.T) (r *quotaRun, n *quotaNode, text *bytes.Buffer) {
	t.Helper()
	r, text = playedQuotas(t), new(bytes.Buffer)
	n = r.nodes[0]
	n.gates = gates.New(n.opts.Gates, n.known.Terms, slog.New(slog.NewTextHandler(text, nil)), n.metrics)
	r.keeps = true
	return r, n, text
}

// The log warns once a window that a quota is nearly used up.
func TestAQuotaIsWarnedOfOnce(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	r, n, text := loggedQuotas(t)
	for range 2 {
		r.toBound(-20_000)
		r.exhaust(n, wholeQuota)
	}
	if got := strings.Count(text.String(), "quota is nearly used up"); got != 2 {
		t.Errorf("got %d warnings in two windows, want one each:\n%s", got, text.String())
	}
}

// A quota with a key that waits after a loss says so: the log once, and whoever asks Redis. It grants units when it says.
func TestAQuotaThatWaitsAfterALossSaysSo(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	r, n, text := loggedQuotas(t)
	operator, err := control.NewControl(r.rdb, "quotas", "keyed")
	if err != nil {
		t.Fatal(err)
	}
	for loss := range 2 {
		r.toBound(50_000_000)
		r.promote()
		r.settle()
		o, err := operator.Opening(t.Context())
		if err != nil || o.Lost.UnixMicro() != n.clock.Epoch || o.At.UnixMicro() < r.now {
			t.Fatalf("got %+v and %v, want a wait for the loss at %d", o, err, n.clock.Epoch)
		}
		if got := strings.Count(text.String(), "quota waits"); got != loss+1 || !strings.Contains(text.String(), "gate=keyed") {
			t.Errorf("got %d warnings of %d losses, want one each:\n%s", got, loss+1, text.String())
		}
		calls := func() int { return len(r.calls[job(keyedQuota, "0", 1).Passes[0].Value]) }
		before := calls()
		for end := o.At.UnixMicro(); r.now < end; r.pass(min(2_000_000, end-r.now)) {
			r.ask(n, []Request{job(keyedQuota, "0", 1)}, false)
		}
		if got := calls(); got != before {
			t.Errorf("got %d units before %s, want none", got-before, o.At)
		}
		if r.exhaust(n, keyedQuota); calls() == before {
			t.Errorf("got no unit after %s", o.At)
		}
	}
	if o, err := operator.Opening(t.Context()); err != nil || o.At.UnixMicro() > r.now {
		t.Errorf("got %+v and %v in the next window, want no wait", o, err)
	}
}

// A quota that was deleted and begins again counts on, and grants when the next window begins.
func TestAQuotaThatWasDeletedCountsOn(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	r := playedQuotas(t)
	r.keeps = true
	value := job(wholeQuota, "", 1).Passes[0].Value
	r.toBound(50_000_000)
	r.exhaust(r.nodes[0], wholeQuota)
	r.pass(20_000_000) // the nodes are gone
	operator, err := control.NewControl(r.rdb, "quotas", "whole")
	if err != nil {
		t.Fatal(err)
	}
	if err := operator.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.nodes = []*quotaNode{r.fresh()}
	r.settle()
	r.exhaust(r.nodes[0], wholeQuota)
	if got := len(r.calls[value]); got != quotaCap {
		t.Errorf("got %d units in the window in which the quota was deleted, want %d", got, quotaCap)
	}
	r.toBound(-500_000)
	r.exhaust(r.nodes[0], wholeQuota)
	if got := len(r.calls[value]); got != 2*quotaCap {
		t.Errorf("got %d units with the next window, want %d", got, 2*quotaCap)
	}
}

// A node that reserves all the time and never polls brings what it remembers as well.
func TestANodeThatOnlyReservesRemembers(t *testing.T) {
	t.Parallel()
	r := playedQuotas(t)
	r.keeps, r.late = true, func() int64 { return 0 }
	n := r.nodes[0]
	r.exhaustBeforeFailover(n)
	r.ask(n, nil, false) // with this a cooldown begins
	for range 30 {
		r.ask(n, []Request{job(wholeQuota, "", 1)}, false)
		r.pass(100_000)
	}
	if over := r.over(); over != "" {
		t.Error(over)
	}
}

// Slots lie ahead: with a loss just before a bound, units of the next window are lost too.
func TestALossBeforeABoundCountsForTheNextWindow(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	r := playedQuotas(t)
	r.keeps, r.late = true, func() int64 { return 0 }
	r.toBound(120_000)
	for range 15 {
		r.ask(r.nodes[0], slices.Repeat([]Request{job(keyedQuota, "0", 1)}, 4), false)
	}
	flush(t, r.rdb)
	r.settle()
	r.exhaust(r.nodes[1], keyedQuota)
	if over := r.over(); over != "" {
		t.Error(over)
	}
	r.toBound(-500_000)
	before := len(r.calls[job(keyedQuota, "0", 1).Passes[0].Value])
	r.exhaust(r.nodes[1], keyedQuota)
	if got := len(r.calls[job(keyedQuota, "0", 1).Passes[0].Value]) - before; got != quotaCap {
		t.Errorf("got %d units in the window behind that, want %d", got, quotaCap)
	}
}

// A quota that is new long after a loss has lost nothing.
func TestAQuotaThatIsNewDoesNotWait(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	r := playedQuotas(t)
	r.keeps = true
	r.toBound(50_000_000)
	r.promote()
	r.settle()
	r.exhaust(r.nodes[0], keyedQuota)
	value := job(keyedQuota, "0", 1).Passes[0].Value
	if got := len(r.calls[value]); got != 0 {
		t.Fatalf("got %d units in the window of the loss, want none", got)
	}
	r.mini.Del(script.KeysOf("quotas", "keyed").Limit)
	r.settle()
	r.exhaust(r.nodes[0], keyedQuota)
	if got := len(r.calls[value]); got != quotaCap {
		t.Errorf("got %d units once the quota was seeded again, want %d", got, quotaCap)
	}
}

// A loss that Redis saw by a clock that was ahead stops a quota no longer than the window in which the clock
// was set back.
func TestAQuotaGoesOnAfterTheClockWasSetBack(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	r := playedQuotas(t)
	r.keeps = true
	r.toBound(50_000_000)
	r.skew = time.Hour.Microseconds()
	r.pass(0)
	r.promote()
	r.settle()
	r.skew = 0
	r.settle()
	r.toBound(-500_000)
	before := len(r.calls[job(keyedQuota, "0", 1).Passes[0].Value])
	r.exhaust(r.nodes[0], keyedQuota)
	if got := len(r.calls[job(keyedQuota, "0", 1).Passes[0].Value]) - before; got != quotaCap {
		t.Errorf("got %d units in the window after that of the step back, want %d", got, quotaCap)
	}
}

// A quota that began by a clock that was ahead is not taken for newer than a loss.
func TestAQuotaOfAClockThatWasAheadWaitsAfterALoss(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	r := playedQuotas(t)
	r.keeps = true
	r.skew = time.Hour.Microseconds()
	r.pass(0)
	r.mini.Del(script.KeysOf("quotas", "keyed").Limit)
	r.settle()
	r.skew = 0
	r.settle()
	r.toBound(-500_000)
	r.promote()
	r.settle()
	before := len(r.calls[job(keyedQuota, "0", 1).Passes[0].Value])
	r.exhaust(r.nodes[0], keyedQuota)
	if got := len(r.calls[job(keyedQuota, "0", 1).Passes[0].Value]) - before; got != 0 {
		t.Errorf("got %d units in the window of the loss, want none", got)
	}
}

// A rolling quota keeps its cap where Redis's clock goes ahead of the parts that it counts in.
func TestARollingQuotaKeepsItsCapWhenTheClockGoesAhead(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, how := range []string{"a step", "another master"} {
		for _, ahead := range []time.Duration{63 * time.Second, 2 * time.Minute} {
			t.Run(fmt.Sprint(how, " ", ahead), func(t *testing.T) {
				t.Parallel()
				r := playedQuotas(t)
				r.keeps, r.late = true, func() int64 { return 0 }
				r.exhaust(r.nodes[0], rollingQuota)
				if how == "another master" {
					r.promote()
				}
				r.step(ahead.Microseconds())
				r.exhaust(r.nodes[0], rollingQuota)
				if over := r.over(); over != "" {
					t.Error(over)
				}
				r.pass(61_000_000)
				r.exhaust(r.nodes[0], rollingQuota)
				if got := len(r.calls[job(rollingQuota, "", 1).Passes[0].Value]); got != 2*quotaCap {
					t.Errorf("got %d units once the window was over, want %d", got, 2*quotaCap)
				}
			})
		}
	}
}

// What a rolling quota counted by a clock that was ahead stops it for no longer than a window once that clock was
// set back.
func TestARollingQuotaGoesOnAfterTheClockWasSetBack(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for quota, name := range map[int]string{rollingQuota: "without a key", valuedQuota: "with a key"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := playedQuotas(t)
			r.keeps, r.late = true, func() int64 { return 0 }
			value := job(quota, "0", 1).Passes[0].Value
			r.step(time.Hour.Microseconds())
			r.pass(61_000_000)
			r.exhaust(r.nodes[0], quota)
			r.step(0)
			for range 16 {
				for _, n := range r.nodes {
					r.ask(n, []Request{job(quota, "0", 1)}, false)
				}
				r.pass(4_000_000)
			}
			r.exhaust(r.nodes[0], quota)
			if got := len(r.calls[value]); got != 2*quotaCap {
				t.Errorf("got %d units a window after the clock was set back, want %d", got, 2*quotaCap)
			}
			if over := r.over(); over != "" {
				t.Error(over)
			}
		})
	}
}

// A quota of the calendar counts a window on that Redis's clock left too early, and came back to. With a key, a clock that was an
// hour ahead has dropped the state: the embedded Redis would not show it.
func TestAQuotaKeepsItsCapWhenTheClockComesBackToAWindow(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, c := range []struct {
		name  string
		quota int
		ahead time.Duration
	}{
		{"without a key, 50s", wholeQuota, 50 * time.Second},
		{"without a key, an hour", wholeQuota, time.Hour},
		{"with a key, 50s", keyedQuota, 50 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := playedQuotas(t)
			r.keeps, r.late = true, func() int64 { return 0 }
			r.toBound(40_000_000)
			r.exhaust(r.nodes[0], c.quota)
			r.step(c.ahead.Microseconds())
			r.exhaust(r.nodes[1], c.quota)
			r.step(0)
			r.exhaust(r.nodes[0], c.quota)
			if over := r.over(); over != "" {
				t.Error(over)
			}
			if got := len(r.calls[job(c.quota, "0", 1).Passes[0].Value]); got != 2*quotaCap {
				t.Errorf("got %d units in the window and the one that the clock went ahead to, want %d", got, 2*quotaCap)
			}
		})
	}
}
