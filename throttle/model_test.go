package throttle

import (
	"context"
	"fmt"
	"math/rand/v2"
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
	learning int64
}

type grant struct {
	seq   int64
	epoch int64
	s     schedule
}

func newModel() *model { return &model{grants: map[string]grant{}, learning: 500_000} }

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
	after := func(count int64) int64 { return ceilDiv(count*period, units) }
	reply := func(s schedule, wait int64) booking {
		return booking{now: now, epoch: m.epoch, schedule: s, wait: duration(wait), fence: why, quiet: m.quiet, settings: m.set}
	}
	if why != fenceNone {
		m.quiet = now + horizon + m.set.Lateness.Microseconds() + after(1)
		if why == fenceSettingsLost {
			m.quiet = max(m.quiet, now+m.learning)
		}
		m.quiet = max(m.quiet, min(micros(m.set.from), now+(m.set.Window+m.set.Guard).Microseconds()))
		m.base, m.n, m.epoch, m.last = m.quiet, debt, now, now
		delete(m.grants, node)
		return reply(schedule{base: m.base, n: m.n, floor: m.base, units: units, period: period, debt: debt}, m.quiet-now-horizon)
	}
	now = max(now, m.last)
	if g, ok := m.grants[node]; ok && a.want > 0 && g.seq == a.seq && g.epoch == m.epoch {
		return reply(g.s, 0)
	}
	m.last = now
	if m.set.Paused {
		return reply(schedule{base: m.base, n: m.n, floor: now, units: units, period: period, debt: debt}, horizon)
	}
	floor, base, n := now+a.lead.Microseconds(), m.base, m.n
	if base+after(n) < floor {
		base, n = floor, 0
	}
	s := schedule{base: base, n: n, floor: floor, units: units, period: period, debt: debt}
	room := floorDiv((now+horizon-base)*units, period) + 1 - n + debt
	s.given = max(0, min(a.want, room))
	wait := max(0, s.at(0)-now-horizon)
	if s.given == 0 {
		return reply(s, wait)
	}
	turns := (n + s.given) / units
	m.base, m.n = base+turns*period, n+s.given-turns*units
	m.grants[node] = grant{a.seq, m.epoch, s}
	return reply(s, wait)
}

func floorDiv(a, b int64) int64 { return -ceilDiv(-a, b) }

// The script and the model give the same answers to the same questions.
func TestScriptIsTheModel(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	rdb := patient(t, m.Addr())
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		m.FlushAll()
		c := Contract{Cap: 1 + r.Int64N(500), Window: time.Second, Burst: 1, Guard: DefaultGuard, Lateness: DefaultLateness, Horizon: DefaultHorizon}
		c.Burst = 1 + r.Int64N(c.Cap)
		now, want := int64(1_700_000_000_000_000), newModel()
		seq := map[string]int64{}
		for op := range 60 {
			node := fmt.Sprint(r.IntN(3))
			s := newScripts(rdb, "model", "provider", node)
			now += r.Int64N([]int64{2_000, 100_000, 1_000_000}[r.IntN(3)])
			m.SetTime(time.UnixMicro(now))
			if r.IntN(5) > 0 {
				seq[node]++ // else the reply was lost
			}
			a := ask{
				want: r.Int64N(30), seq: seq[node], epoch: want.epoch, stepped: r.IntN(40) == 0, identity: IdentityNone,
				lead: lead, known: Settings{Contract: c, Revision: 1, By: "file"},
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
	for name, text := range map[string]string{"book": lua.Book, "configure": lua.Configure} {
		var header, body strings.Builder
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "--") {
				header.WriteString(line)
			} else {
				body.WriteString(line)
			}
		}
		for i := 1; i <= 30; i++ {
			for _, word := range []string{fmt.Sprintf("KEYS[%d]", i), fmt.Sprintf("ARGV[%d]", i)} {
				inHeader, inBody := strings.Contains(header.String(), word), strings.Contains(body.String(), word)
				if inBody && !inHeader {
					t.Errorf("%s.lua uses %s and its header doesn't name it", name, word)
				}
				// A run of arguments is read in a loop: ARGV[2 + i].
				if inHeader && !inBody && !strings.Contains(body.String(), word[:5]+"2 + i]") &&
					!strings.Contains(body.String(), word[:5]+"7 + i]") {
					t.Errorf("%s.lua names %s and doesn't use it", name, word)
				}
			}
		}
	}
}

// The fence that people are told of is the one that the script keeps.
func TestRelearnIsTheScripts(t *testing.T) {
	t.Parallel()
	if want := fmt.Sprintf("local LEARNING = %d ", relearn.Microseconds()); !strings.Contains(lua.Book, want) {
		t.Errorf("book.lua has no %q", want)
	}
	if 2*lookEvery > relearn {
		t.Errorf("nodes look every %v, which is too seldom to bring settings back within %v", lookEvery, relearn)
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
