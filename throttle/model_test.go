package throttle

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"

	"dispatcher/lua"
)

// model does in Go what book.lua does in Redis, at a time that is given. It is
// what tests of the waiting side run on, and it is held to the script.
type model struct {
	mu       sync.Mutex
	has      bool
	set      Settings
	base, n  int64
	last     int64
	quiet    int64
	epoch    int64
	grants   map[string]grant
	turns    map[string]place
	learning int64
}

type grant struct {
	seq   int64
	epoch int64
	s     schedule
}

func newModel() *model {
	return &model{grants: map[string]grant{}, turns: map[string]place{}, learning: 500_000}
}

func (m *model) fence(a ask, now int64) fence {
	switch {
	case !m.has:
		return fenceSettingsLost
	case a.known.newer(m.set):
		return fenceSettingsOld
	case m.epoch == 0:
		return fenceTimelineLost
	case now < m.last-2000:
		return fenceClockBack
	case a.stepped && a.epoch == m.epoch:
		return fenceClockStep
	}
	return fenceNone
}

func (m *model) book(node string, a ask, now int64) booking {
	m.mu.Lock()
	defer m.mu.Unlock()
	why := m.fence(a, now)
	if why == fenceSettingsLost || why == fenceSettingsOld {
		m.has, m.set = true, a.known
	}
	units, period := m.set.Pace()
	debt := m.set.Burst - 1
	horizon := m.set.Horizon.Microseconds()
	after := func(count int64) int64 { return after(count, units, period) }
	reply := func(s schedule, wait int64) booking {
		return booking{now: now, epoch: m.epoch, schedule: s, wait: duration(wait), fence: why, quiet: m.quiet, settings: m.set}
	}
	nothing := func(wait int64) booking { return reply(schedule{base: now, floor: now, units: 1, period: 1}, wait) }
	if why != fenceNone {
		m.quiet = now + horizon + m.set.Lateness.Microseconds() + after(1)
		if why == fenceSettingsLost {
			m.quiet = max(m.quiet, now+m.learning)
		}
		m.quiet = max(m.quiet, min(micros(m.set.from), now+(m.set.Window+m.set.Guard).Microseconds()))
		m.base, m.n, m.epoch, m.last = m.quiet, debt, now, now
		delete(m.grants, node)
		clear(m.turns)
		return nothing(m.quiet - now - horizon)
	}
	now = max(now, m.last)
	if g, ok := m.grants[node]; ok && a.want > 0 && g.seq == a.seq && g.epoch == m.epoch {
		return reply(g.s, 0)
	}
	m.last = now
	if a.want == 0 {
		delete(m.turns, node)
		return nothing(0)
	}
	if m.set.Paused {
		return nothing(horizon)
	}
	ahead := m.ahead(node, now)
	floor, base, n := now+a.lead.Microseconds(), m.base, m.n
	if base+after(n) < floor {
		base, n = floor, 0
	}
	s := schedule{base: base, n: n, floor: floor, units: units, period: period, debt: debt}
	if a.reach > 0 {
		horizon = min(horizon, a.reach.Microseconds())
	}
	room := within(now+horizon-base, units, period) + 1 - n + debt - ahead
	s.given = max(0, min(a.want, room))
	if s.given == 0 {
		wait := max(0, s.at(ahead+a.want-1)-now-horizon)
		if !a.leaves {
			m.turns[node] = place{due: now + wait, units: a.want}
		}
		return nothing(wait)
	}
	delete(m.turns, node)
	turns := max(0, n+s.given-1-debt) / units
	m.base, m.n = base+turns*period, n+s.given-turns*units
	m.grants[node] = grant{a.seq, m.epoch, s}
	return reply(s, 0)
}

// ahead is what the nodes want whose turn comes before this one's.
func (m *model) ahead(node string, now int64) (units int64) {
	mine, ok := m.turns[node]
	for other, p := range m.turns {
		switch {
		case p.due < now-100_000:
			delete(m.turns, other)
		case other != node && (!ok || p.due < mine.due):
			units += p.units
		}
	}
	return units
}

// place is a node's in the queue of those that were refused.
type place struct{ due, units int64 }

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
		files := []Settings{seeded(c, Rails{}), seeded(c, Rails{}), seeded(c, Rails{MaxCap: 1000})} // what each node's says
		files[1].Lateness, files[1].Guard, files[1].Reserve, files[1].MaxNodes = 20*time.Millisecond, 30*time.Millisecond, r.Int64N(c.Cap-c.Burst+1), 1
		for op := range 60 {
			which := r.IntN(3)
			node := fmt.Sprint(which)
			s := newScripts(rdb, "model", "provider", node, tokenBucket())
			now += r.Int64N(steps[r.IntN(len(steps))])
			m.SetTime(time.UnixMicro(now))
			if r.IntN(5) > 0 {
				seq[node]++ // else the reply was lost
			}
			a := ask{
				want: r.Int64N(30), seq: seq[node], epoch: want.epoch, stepped: r.IntN(40) == 0, identity: IdentityNone,
				lead: lead, reach: []time.Duration{0, 50 * time.Millisecond, time.Second}[r.IntN(3)], leaves: r.IntN(3) == 0,
				known: files[which],
			}
			got, err := s.runBook(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.book(node, a, now), got, cmp.AllowUnexported(booking{}, schedule{}, Settings{})); diff != "" {
				t.Fatalf("seed %d, op %d: the script differs from the model (-want +got):\n%s", seed, op, diff)
			}
		}
	}
}

// Each key and argument that a script's header names is used in its body, and
// the other way round.
func TestHeadersNameWhatTheBodyUses(t *testing.T) {
	t.Parallel()
	scripts := map[string]string{"configure": lua.Configure(), "cl_throttle": lua.CLThrottle(), "share": lua.Share()}
	for _, a := range Algorithms() {
		scripts[a.Name] = lua.Book(a.Name)
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
			// A run of arguments is read at once: ARGV[7 + i], or from ARGV[9] on.
			run := w == "ARGV[8]" && name == "configure"
			if !run && !strings.Contains(body.String(), w) {
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
		if 2*max(c.LookEvery(), lookEvery) > c.Relearn() {
			t.Errorf("nodes look every %v, which is too seldom to bring settings back within %v", c.LookEvery(), c.Relearn())
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
	m.has, m.epoch, m.grants = false, 0, map[string]grant{}
}

// local answers like a Redis that is rtt away, in the bubble's time.
func (m *model) local(node string, rtt time.Duration) bookFunc {
	return func(ctx context.Context, a ask) (booking, error) {
		time.Sleep(rtt / 2)
		b := m.book(node, a, time.Now().UnixMicro())
		time.Sleep(rtt - rtt/2)
		return b, ctx.Err()
	}
}
