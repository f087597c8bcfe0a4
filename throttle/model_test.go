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
)

// model does in Go what reserve.lua does in Redis with a token bucket, at a time that
// is given. It is what tests of the waiting side run on, and it is held to the script.
type model struct {
	mu             sync.Mutex
	has            bool
	set, under     Settings
	base, n        int64
	last           int64
	notBefore      int64
	epoch          int64
	began          int64
	queued, served int64
	spare          int64
	suspect        suspicion
	here           map[string]presence
	grants         map[string]grant
	learning       int64
	published      func(what string) // tells those that listen; may be nil
}

type grant struct {
	seq   int64
	epoch int64
	s     schedule
}

// presence is a node's record.
type presence struct{ seen, since int64 }

// suspicion is a node's report of a step of the clock, while before is not 0 one
// that nobody has denied.
type suspicion struct {
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

func (m *model) cooldown(node string, a ask, now int64) (why cooldown, waiting bool) {
	switch {
	case !m.has:
		return cooldownSettingsLost, false
	case a.known.Newer(m.set):
		return cooldownSettingsOld, false
	case m.epoch == 0:
		return cooldownTimelineLost, false
	case now < m.last-2000:
		return cooldownClockBack, false
	case a.stepped && a.epoch == m.epoch && m.confirmed(node, a, now):
		return cooldownClockStep, false
	}
	waiting, unanswered := m.waits(node, a, now)
	if unanswered {
		return cooldownClockStep, false
	}
	return cooldownNone, waiting
}

// confirmed takes a report of a step in, and says whether it is to be believed.
func (m *model) confirmed(node string, a ask, now int64) bool {
	if m.suspect.by != "" && now-m.suspect.at < 5_000_000 {
		return m.suspect.by != node
	}
	for other, p := range m.here {
		if other != node && p.seen >= now-9_000_000 && p.since > 0 && p.since <= a.read {
			m.suspect = suspicion{node, now, a.read}
			m.publish("poll")
			return false
		}
	}
	return true
}

// waits says whether a report still waits for a second opinion, and whether none
// will come.
func (m *model) waits(node string, a ask, now int64) (waiting, unanswered bool) {
	s := m.suspect
	if s.before == 0 {
		return false, false
	}
	if s.by != node && a.epoch == m.epoch && !a.stepped && a.since > 0 && a.since <= s.before && a.read >= s.at {
		m.suspect.before = 0
		return false, false
	}
	return true, now-s.at > a.known.Relearn().Microseconds()
}

func (m *model) reserve(node string, a ask, now int64) reservation {
	m.mu.Lock()
	defer m.mu.Unlock()
	same := m.has && a.known.Pack() == m.set.Pack()
	traces := len(m.here) > 0
	if a.leaves {
		delete(m.here, node)
		delete(m.grants, node)
	} else if a.want == 0 || a.report {
		m.here[node] = presence{now, a.since}
	}
	why, waiting := m.cooldown(node, a, now)
	if why == cooldownSettingsLost || why == cooldownSettingsOld {
		m.has, m.set, m.began, same = true, a.known, Micros(a.known.Began), true
	}
	units, period := m.set.Pace()
	debt := m.set.Burst - 1
	horizon := m.set.Horizon.Microseconds()
	after := func(count int64) int64 { return after(count, units, period) }
	reply := func(s schedule, wait int64) reservation {
		set := m.set
		if same {
			set = a.known
		}
		set.Began = FromMicros(m.began)
		return reservation{
			now: now, epoch: m.epoch, schedule: s, wait: duration(wait), cooldown: why, notBefore: m.notBefore, settings: set, poll: 4 * time.Second,
		}
	}
	nothing := func(wait int64) reservation { return reply(schedule{base: now, floor: now, units: 1, period: 1}, wait) }
	if why != cooldownNone {
		m.notBefore = now + horizon + m.set.Lateness.Microseconds() + after(1)
		if why == cooldownSettingsLost {
			m.notBefore = max(m.notBefore, now+m.learning)
			if traces && !a.learned {
				m.notBefore = max(m.notBefore, now+horizon+(m.set.Lateness+m.set.Window+m.set.Guard).Microseconds())
				m.began = max(m.began, m.notBefore)
			}
		}
		m.notBefore = max(m.notBefore, min(m.began, now+horizon+(m.set.Lateness+m.set.Window+m.set.Guard).Microseconds()))
		m.base, m.n, m.epoch, m.last, m.under, m.suspect = m.notBefore, debt, now, now, m.set, suspicion{}
		m.queued, m.served, m.spare = 0, 0, 0
		delete(m.grants, node)
		m.publish("epoch")
		return nothing(m.notBefore - now - horizon)
	}
	m.extend(a, same, now)
	if a.epoch == 0 && len(m.here) > 1 && now-m.last > 100_000 {
		m.publish("poll")
	}
	now = max(now, m.last)
	if g, ok := m.grants[node]; ok && a.retry && a.want > 0 && g.seq == a.seq && g.epoch == m.epoch {
		return reply(g.s, 0)
	}
	m.last = now
	if a.want == 0 {
		if a.place.ticket() > m.served {
			m.served = min(m.queued, m.served+1)
		}
		b := nothing(0)
		if waiting {
			b.poll = 20 * time.Millisecond
		}
		return b
	}
	ticket := a.place.ticket()
	if waiting {
		b := nothing(20_000)
		b.place = placed(ticket)
		return b
	}
	if m.set.Paused {
		return nothing(4_000_000)
	}
	if ticket >= 0 && a.place.due {
		m.served = max(m.served, ticket)
	}
	ahead := m.queued
	if ticket >= 0 {
		ahead = ticket
	}
	ahead = max(0, ahead-m.served)
	floor, base, n := now+a.lead.Microseconds(), m.base, m.n
	if base+after(n) < floor {
		base, n = floor, 0
	}
	s := schedule{base: base, n: n, floor: floor, units: units, period: period, debt: debt}
	if a.reach > 0 {
		horizon = min(horizon, a.reach.Microseconds())
	}
	take := func(want, ahead int64) (wait int64) {
		room := within(now+horizon-base, units, period) + 1 - n + debt - ahead
		if s.given = max(0, min(want, room)); s.given > 0 {
			return 0
		}
		return max(0, s.at(ahead+want-1)-now-horizon)
	}
	wait, poll := take(a.want, ahead), int64(4_000_000)
	if s.given == 0 && ahead > 0 {
		horizon -= min(100_000, horizon/2)
		poll = take(1, 0)
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
	if s.given == 0 {
		if ticket < 0 && !a.refuses && a.since > 0 && now-a.since >= 2_000_000 {
			ticket, m.queued = m.queued, m.queued+a.want
		}
		if ahead > 0 && m.spare == 0 {
			m.spare = now
		}
		b := nothing(wait)
		b.place, b.poll = placed(ticket), duration(poll)
		return b
	}
	if ticket >= 0 {
		m.served = max(m.served, min(m.queued, ticket+s.given))
	}
	m.spare = 0
	turns := max(0, n+s.given-1-debt) / units
	m.base, m.n = base+turns*period, n+s.given-turns*units
	m.grants[node] = grant{a.seq, m.epoch, s}
	return reply(s, 0)
}

// extend is for a node that worked under other terms before the cooldown.
func (m *model) extend(a ask, same bool, now int64) {
	k := a.known
	if a.epoch == 0 || a.epoch == m.epoch || same || !a.learned || now >= m.notBefore || !k.Changed.Equal(m.set.Changed) {
		return
	}
	m.notBefore = max(m.notBefore, now+(k.Horizon+k.Lateness+max(k.Window, m.set.Window)+max(k.Guard, m.set.Guard)).Microseconds())
	m.began = max(m.began, m.notBefore)
	m.base, m.n = m.notBefore, m.set.Burst-1
}

func placed(ticket int64) place { return place{taken: ticket >= 0, at: max(0, ticket)} }

// The script and the model give the same answers to the same questions.
func TestScriptIsTheModel(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	rdb := patient(t, m.Addr())
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		m.FlushAll()
		c := Contract{Cap: 1 + r.Int64N(500), Window: time.Second, Burst: 1, Guard: DefaultGuard, Lateness: DefaultLateness, Horizon: DefaultHorizon}
		c.Burst = 1 + r.Int64N(c.Cap)
		steps := []int64{2_000, 100_000, 1_000_000}
		if seed%2 == 1 { // any ordinary contract, over any window
			c = anyContract(r.Int64N)
			c.Reserve, c.MaxNodes = 0, 0
			steps = append(steps, c.Window.Microseconds()/c.Cap+1, 2*c.Window.Microseconds())
		}
		now, want := int64(1_700_000_000_000_000), newModel()
		seq := map[string]int64{}
		files := []Settings{seeded(c), seeded(c), seeded(c, Guardrails{MaxCap: 1000})} // what each node's says
		places := map[string]place{}
		files[1].Lateness, files[1].Guard, files[1].Reserve, files[1].MaxNodes = 20*time.Millisecond, 30*time.Millisecond, r.Int64N(c.Cap-c.Burst+1), 1
		for op := range 60 {
			which := r.IntN(3)
			node := fmt.Sprint(which)
			s := NewScripts(rdb, "model", "provider", node)
			now += r.Int64N(steps[r.IntN(len(steps))])
			m.SetTime(time.UnixMicro(now))
			if r.IntN(5) > 0 {
				seq[node]++ // else the reply was lost
			}
			here := places[node]
			here.due = r.IntN(2) == 0
			a := ask{
				want: r.Int64N(30), seq: seq[node], retry: true, stepped: r.IntN(40) == 0, identity: string(IdentityNone),
				epoch: []int64{want.epoch, want.epoch, want.epoch, want.epoch - 1}[r.IntN(4)], learned: r.IntN(2) == 0, place: here,
				since: now - r.Int64N(4_000_000), read: now - r.Int64N(500_000), report: r.IntN(3) == 0, leaves: r.IntN(50) == 0,
				lead: lead, reach: []time.Duration{0, 50 * time.Millisecond, time.Second}[r.IntN(3)], refuses: r.IntN(3) == 0,
				known: files[which],
			}
			got, err := s.Reserve(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			places[node] = got.place
			expected := want.reserve(node, a, now)
			if diff := cmp.Diff(expected, got, cmp.AllowUnexported(reservation{}, schedule{}, place{}), cmpopts.IgnoreUnexported(Settings{})); diff != "" {
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
	for _, a := range Algorithms() {
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

// What people are told of the standstill after a loss is long enough for each
// node to come by.
func TestEachNodeComesByWithinRelearn(t *testing.T) {
	t.Parallel()
	for _, window := range []time.Duration{time.Second, time.Minute, time.Hour} {
		c := contract(6)
		c.Window = window
		if 2*max(c.PollInterval(), PollEvery) > c.Relearn() {
			t.Errorf("nodes look every %v, which is too seldom to bring settings back within %v", c.PollInterval(), c.Relearn())
		}
	}
}

// settings are what the model holds.
func (m *model) settings() Settings {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.set
}

// change is what an operator does.
func (m *model) change(s Settings) {
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
	return func(ctx context.Context, a ask) (reservation, error) {
		time.Sleep(rtt / 2)
		b := m.reserve(node, a, time.Now().UnixMicro())
		time.Sleep(rtt - rtt/2)
		return b, ctx.Err()
	}
}
