package throttle

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dispatcher/lua"
	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// model does in Go what reserve.lua does in Redis with a token bucket, at a time that
// is given. It is what tests of the waiting side run on, and it is held to the script.
type model struct {
	mu             sync.Mutex
	has            bool
	set, under     limit.Settings
	base, n        int64
	last           int64
	notBefore      int64
	epoch          int64
	began          int64
	queued, served int64
	spare          int64
	asks           int64 // until when the last node in the queue asks again
	step           stepReport
	here           map[string]presence
	grants         map[string]grant
	learning       int64
	published      func(what string) // tells those that listen; may be nil
}

type grant struct {
	seq   int64
	epoch int64
	s     clock.Schedule
}

// presence is a node's record.
type presence struct{ seen, since int64 }

// stepReport is a node's report of a step of the clock, while before is not 0 one
// that nobody has denied.
type stepReport struct {
	by         string
	at, before int64
}

func newModel() *model {
	return &model{grants: map[string]grant{}, here: map[string]presence{}, learning: 500_000}
}

func (m *model) publish(what string) {
	if m.published != nil {
		m.published(what)
	}
}

func (m *model) cooldown(node string, a script.Ask, now int64) (why script.Cooldown, waiting bool) {
	switch {
	case !m.has:
		return script.CooldownSettingsLost, false
	case a.Known.Newer(m.set):
		return script.CooldownSettingsOld, false
	case m.epoch == 0:
		return script.CooldownTimelineLost, false
	case now < m.last-2000:
		return script.CooldownClockBack, false
	case a.Stepped && a.Epoch == m.epoch && m.confirmed(node, a, now):
		return script.CooldownClockStep, false
	}
	waiting, unanswered := m.waits(node, a, now)
	if unanswered {
		return script.CooldownClockStep, false
	}
	return script.CooldownNone, waiting
}

// confirmed takes a report of a step in, and says whether it is to be believed.
func (m *model) confirmed(node string, a script.Ask, now int64) bool {
	if m.step.by != "" && now-m.step.at < 5_000_000 {
		return m.step.by != node
	}
	for other, p := range m.here {
		if other != node && p.seen >= now-9_000_000 && p.since > 0 && p.since <= a.Read {
			m.step = stepReport{node, now, a.Read}
			m.publish("poll")
			return false
		}
	}
	return true
}

// waits says whether a report still waits for a second opinion, and whether none
// will come.
func (m *model) waits(node string, a script.Ask, now int64) (waiting, unanswered bool) {
	s := m.step
	if s.before == 0 {
		return false, false
	}
	if s.by != node && a.Epoch == m.epoch && !a.Stepped && a.Since > 0 && a.Since <= s.before && a.Read >= s.at {
		m.step.before = 0
		return false, false
	}
	return true, now-s.at > a.Known.Relearn().Microseconds()
}

func (m *model) reserve(node string, a script.Ask, now int64) script.Reservation {
	m.mu.Lock()
	defer m.mu.Unlock()
	same := m.has && a.Known.Pack() == m.set.Pack()
	traces := len(m.here) > 0
	if a.Leaves {
		delete(m.here, node)
		delete(m.grants, node)
	} else if a.Want == 0 || a.Report {
		m.here[node] = presence{now, a.Since}
	}
	why, waiting := m.cooldown(node, a, now)
	before := m.set
	if why == script.CooldownSettingsLost || why == script.CooldownSettingsOld {
		m.has, m.set, m.began, same = true, a.Known, limit.Micros(a.Known.Began), true
	}
	units, period := m.set.Pace()
	debt := m.set.Burst - 1
	horizon := m.set.Horizon.Microseconds()
	after := func(count int64) int64 { return clock.After(count, units, period) }
	reply := func(s clock.Schedule, wait int64) script.Reservation {
		set := m.set
		if same {
			set = a.Known
		}
		set.Began = limit.FromMicros(m.began)
		return script.Reservation{
			Now: now, Epoch: m.epoch, Schedule: s, Wait: clock.Duration(wait), Cooldown: why, NotBefore: m.notBefore, Settings: set, Poll: 4 * time.Second,
		}
	}
	nothing := func(wait int64) script.Reservation {
		return reply(clock.Schedule{Base: now, Floor: now, Units: 1, Period: 1}, wait)
	}
	if why != script.CooldownNone {
		m.notBefore = now + horizon + m.set.Lateness.Microseconds() + afterLargest(m.set)
		if why == script.CooldownSettingsOld {
			m.notBefore = max(m.notBefore, now+horizon+m.set.Lateness.Microseconds()+afterLargest(before))
		}
		if why == script.CooldownSettingsLost {
			m.notBefore = max(m.notBefore, now+m.learning)
			if traces && !a.Learned {
				m.notBefore = max(m.notBefore, now+horizon+(m.set.Lateness+m.set.Window+m.set.Guard).Microseconds())
				m.began = max(m.began, m.notBefore)
			}
		}
		m.notBefore = max(m.notBefore, min(m.began, now+horizon+(m.set.Lateness+m.set.Window+m.set.Guard).Microseconds()))
		m.began = min(m.began, m.notBefore)
		m.base, m.n, m.epoch, m.last, m.under, m.step = m.notBefore, debt, now, now, m.set, stepReport{}
		m.queued, m.served, m.spare = 0, 0, 0
		delete(m.grants, node)
		m.publish("epoch")
		return nothing(m.notBefore - now - horizon)
	}
	m.extend(a, same, now)
	if a.Epoch == 0 && len(m.here) > 1 && now-m.last > 100_000 {
		m.publish("poll")
	}
	now = max(now, m.last)
	if g, ok := m.grants[node]; ok && a.Retry && a.Want > 0 && g.seq == a.Seq && g.epoch == m.epoch {
		return reply(g.s, 0)
	}
	m.last = now
	if a.Want == 0 {
		if a.Place.Ticket() > m.served {
			m.served = min(m.queued, m.served+1)
		}
		b := nothing(0)
		if waiting {
			b.Poll = 20 * time.Millisecond
		}
		return b
	}
	ticket := a.Place.Ticket()
	if waiting {
		b := nothing(20_000)
		m.place(&b, ticket)
		return b
	}
	if m.set.Paused {
		return nothing(4_000_000)
	}
	if m.asks < now {
		m.served = m.queued // all that were in the queue have left
	}
	if ticket >= 0 && a.Place.Due {
		m.served = max(m.served, min(m.queued, ticket))
	}
	ahead := m.queued
	if ticket >= 0 {
		ahead = ticket
	}
	ahead = max(0, ahead-m.served)
	floor, base, n := now+a.Nearest.Microseconds(), m.base, m.n
	if base+after(n) < floor {
		base, n = floor, 0
	}
	s := clock.Schedule{Base: base, N: n, Floor: floor, Units: units, Period: period, Debt: debt}
	if a.Reach > 0 {
		horizon = min(horizon, a.Reach.Microseconds())
	}
	take := func(want, ahead int64) (wait int64) {
		room := clock.Within(now+horizon-base, units, period) + 1 - n + debt - ahead
		if s.Given = a.Fitting(room, want, math.MaxInt64, m.set.LargestCost()); s.Given > 0 {
			return 0
		}
		return max(0, s.At(ahead+a.BeforeLast(want))-now-horizon)
	}
	wait, poll := take(a.Want, ahead), int64(4_000_000)
	short := script.ShortOfNothing
	if now >= max(m.notBefore, m.began) {
		short = script.ShortOfUnits
	}
	if s.Given == 0 && ahead > 0 {
		horizon -= min(100_000, horizon/2)
		poll = take(a.FirstCost(), 0)
		if poll < 3_500_000 {
			spacing := float64(period) / float64(units)
			poll = int64(math.Ceil(float64(poll) + math.Ceil(float64(3_500_000-poll)/spacing)*spacing))
		}
		switch {
		case wait <= 6_000_000:
			poll = wait
		case poll > 6_000_000:
			poll = 4_000_000
		}
	}
	if s.Given == 0 {
		if ticket < 0 && !a.Refuses && a.Since > 0 && now-a.Since >= 2_000_000 {
			ticket, m.queued = m.queued, m.queued+a.Want
		}
		if ahead > 0 && m.spare == 0 {
			m.spare = now
		}
		b := nothing(wait)
		b.Poll, b.Short = clock.Duration(poll), short
		m.place(&b, ticket)
		return b
	}
	if ticket >= 0 {
		m.served = max(m.served, min(m.queued, ticket+s.Given))
	}
	m.spare = 0
	turns := max(0, n+s.Given-1-debt) / units
	m.base, m.n = base+turns*period, n+s.Given-turns*units
	m.grants[node] = grant{a.Seq, m.epoch, s}
	b := reply(s, 0)
	b.Short = short
	return b
}

// afterLargest is how long the largest job keeps the timeline, at most a whole window.
func afterLargest(s limit.Settings) int64 {
	units, period := s.Pace()
	return min(clock.After(s.LargestCost(), units, period), limit.Windowed(s.Contract).Microseconds())
}

// extend is for a node that worked under other terms before the cooldown.
func (m *model) extend(a script.Ask, same bool, now int64) {
	k := a.Known
	if a.Epoch == 0 || a.Epoch == m.epoch || same || !a.Learned || now >= m.notBefore || !k.Changed.Equal(m.set.Changed) {
		return
	}
	m.notBefore = max(m.notBefore, now+(k.Horizon+k.Lateness+max(k.Window, m.set.Window)+max(k.Guard, m.set.Guard)).Microseconds())
	m.began = max(m.began, m.notBefore)
	m.base, m.n = m.notBefore, m.set.Burst-1
}

// place gives a refused node a place in the queue, if it has a ticket.
func (m *model) place(b *script.Reservation, ticket int64) {
	b.Place = script.Place{Taken: ticket >= 0, At: max(0, ticket)}
	if ticket >= 0 {
		m.asks = max(m.asks, b.Now+min(b.Wait, b.Poll).Microseconds()+100_000)
	}
}

// The script and the model give the same answers to the same questions.
func TestScriptIsTheModel(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	m := miniredis.RunT(t)
	rdb := patient(t, m.Addr())
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		m.FlushAll()
		c := limit.Contract{Cap: 1 + r.Int64N(500), Window: time.Second, Burst: 1, Guard: limit.DefaultGuard, Lateness: limit.DefaultLateness, Horizon: limit.DefaultHorizon}
		c.Burst = 1 + r.Int64N(c.Cap)
		steps := []int64{2_000, 100_000, 1_000_000}
		if seed%2 == 1 { // any ordinary contract, over any window
			c = anyContract(r.Int64N)
			c.Reserve, c.MaxNodes = 0, 0
			steps = append(steps, c.Window.Microseconds()/c.Cap+1, 2*c.Window.Microseconds())
		}
		now, want := int64(1_700_000_000_000_000), newModel()
		seq := map[string]int64{}
		files := []limit.Settings{seeded(c), seeded(c), seeded(c, limit.Guardrails{MaxCap: 1000})} // what each node's says
		places := map[string]script.Place{}
		if seed%3 == 0 {
			files[1].MaxCost = 1 + r.Int64N(min(10, c.Cap-c.Burst+1))
		}
		files[1].Lateness, files[1].Guard, files[1].Reserve, files[1].MaxNodes = 20*time.Millisecond, 30*time.Millisecond, r.Int64N(c.Cap-c.Burst+2-files[1].LargestCost()), 1
		files[1].MaxCost = min(files[1].LargestCost(), max(1, files[1].Reserve))
		for op := range 60 {
			which := r.IntN(3)
			node := fmt.Sprint(which)
			s := script.NewScripts(rdb, "model", "provider", node)
			now += r.Int64N(steps[r.IntN(len(steps))])
			m.SetTime(time.UnixMicro(now))
			if r.IntN(5) > 0 {
				seq[node]++ // else the reply was lost
			}
			here := places[node]
			here.Due = r.IntN(2) == 0
			a := script.Ask{
				Want: r.Int64N(30), Seq: seq[node], Retry: true, Stepped: r.IntN(40) == 0, Identity: string(IdentityNone),
				Epoch: []int64{want.epoch, want.epoch, want.epoch, want.epoch - 1}[r.IntN(4)], Learned: r.IntN(2) == 0, Place: here,
				Since: now - r.Int64N(4_000_000), Read: now - r.Int64N(500_000), Report: r.IntN(3) == 0, Leaves: r.IntN(50) == 0,
				Nearest: nearest, Reach: []time.Duration{0, 50 * time.Millisecond, time.Second}[r.IntN(3)], Refuses: r.IntN(3) == 0,
				Known: files[which],
			}
			for left := a.Want; seed%3 == 0 && left > 0; {
				cost := 1 + r.Int64N(min(left, files[which].LargestCost()))
				a.Costs, left = append(a.Costs, cost), left-cost
			}
			got, err := s.Reserve(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			places[node] = got.Place
			expected := want.reserve(node, a, now)
			if diff := cmp.Diff(expected, got, cmp.AllowUnexported(script.Reservation{}, clock.Schedule{}, script.Place{}), cmpopts.IgnoreUnexported(limit.Settings{})); diff != "" {
				t.Fatalf("seed %d, op %d: the script differs from the model (-want +got):\n%s", seed, op, diff)
			}
		}
	}
}

// Each key and argument that a script's header names is used in its body, and
// the other way round.
func TestHeadersNameWhatTheBodyUses(t *testing.T) {
	t.Parallel()
	scripts := map[string]string{"configure": lua.Configure(), "cl_throttle": clThrottleScript, "lease": lua.Lease(), "lateness": lua.Lateness(), "delete": lua.Delete(), "register": lua.Register()}
	for _, a := range limit.Algorithms() {
		scripts[a.Name] = scriptOf(a.Name)
	}
	word := regexp.MustCompile(`(KEYS|ARGV)\[\d+\]`)
	for name, text := range scripts {
		var header, body strings.Builder
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "--") {
				header.WriteString(line)
			} else {
				body.WriteString(line)
			}
		}
		for _, w := range word.FindAllString(body.String(), -1) {
			if !strings.Contains(header.String(), w) {
				t.Errorf("%s uses %s and its header doesn't name it", name, w)
			}
		}
		for _, w := range word.FindAllString(header.String(), -1) {
			if !strings.Contains(body.String(), w) {
				t.Errorf("%s names %s and doesn't use it", name, w)
			}
		}
	}
}

// The standstill that people are shown after a loss is long enough for each
// node to come by.
func TestEachNodeComesByWithinRelearn(t *testing.T) {
	t.Parallel()
	for _, window := range []time.Duration{time.Second, time.Minute, time.Hour} {
		c := contract(6)
		c.Window = window
		if 2*max(c.PollInterval(), limit.PollEvery) > c.Relearn() {
			t.Errorf("nodes look every %v, which is too seldom to bring settings back within %v", c.PollInterval(), c.Relearn())
		}
	}
}

// settings are what the model holds.
func (m *model) settings() limit.Settings {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.set
}

// change is what an operator does.
func (m *model) change(s limit.Settings) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set = s
}

// lose is what happens to a Redis that is restarted empty.
func (m *model) lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.has, m.epoch, m.grants, m.here = false, 0, map[string]grant{}, map[string]presence{}
}

// local answers like a Redis that is rtt away, in the bubble's time.
func (m *model) local(node string, rtt time.Duration) reserveFunc {
	return func(ctx context.Context, a script.Ask) (script.Reservation, error) {
		time.Sleep(rtt / 2)
		b := m.reserve(node, a, time.Now().UnixMicro())
		time.Sleep(rtt - rtt/2)
		return b, ctx.Err()
	}
}
