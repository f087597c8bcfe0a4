package throttle

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"dispatcher/throttle/control"
	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// conforming are the laws that each algorithm keeps.
var conforming = []struct {
	name string
	law  func(*trial)
}{
	{"no window holds more after a late burst", func(tr *trial) {
		length := limit.Windowed(tr.c).Microseconds()
		tr.pass(3*length - tr.now%length) // to the beginning of a bucket, with nothing given before
		tr.reserve(0, 1)
		tr.pass(length - tr.now%length - 20_000)
		tr.reserve(0, tr.c.Cap)
		tr.saturate(2*length, 1)
		tr.Logf("found %d of %d", tr.found(), tr.worst)
		if !tr.a.Strict && tr.mini != nil && tr.found() <= tr.c.Cap {
			tr.Errorf("%s: found only %d units; so few don't show that it may pass the cap", tr.a.Name, tr.found())
		}
	}},
	{"a lost reply comes again", func(tr *trial) {
		tr.pass(limit.Windowed(tr.c).Microseconds())
		first := tr.reserve(0, 5)
		tr.pass(1_000)
		again := tr.ask(0, 5)
		if diff := cmp.Diff(first.Schedule, again.Schedule, cmp.AllowUnexported(clock.Schedule{})); first.Schedule.Given == 0 || diff != "" {
			tr.Errorf("%s: the same number got other slots (-first +again):\n%s", tr.a.Name, diff)
		}
	}},
	{"nothing lies beyond the reach", func(tr *trial) {
		tr.reach = limit.MinHorizon
		for range 20 {
			b := tr.reserve(0, tr.c.Cap)
			for j := range b.Schedule.Given {
				if ahead := clock.Duration(b.Schedule.At(j) - b.Now); ahead > tr.reach {
					tr.Fatalf("%s: got a unit %v ahead, want at most %v", tr.a.Name, ahead, tr.reach)
				}
			}
			tr.pass(max(b.Wait.Microseconds(), 5_000))
		}
		if len(tr.grants) < 5 {
			tr.Errorf("%s: got %d units; so few prove nothing", tr.a.Name, len(tr.grants))
		}
	}},
	{"nothing while paused", func(tr *trial) {
		tr.set(control.Change{Values: parameters.Values{"paused": "true"}})
		tr.pass(limit.Windowed(tr.c).Microseconds())
		if got := tr.saturate(limit.Windowed(tr.c).Microseconds(), 5); got > 0 {
			tr.Errorf("%s: %d units were given while paused", tr.a.Name, got)
		}
		tr.set(control.Change{Values: parameters.Values{"paused": "false"}})
		if got := tr.saturate(limit.Windowed(tr.c).Microseconds(), 5); got == 0 {
			tr.Errorf("%s: nothing was given after the pause", tr.a.Name)
		}
	}},
	{"a lost limit gives no more", func(tr *trial) {
		tr.lose(tr.nodes[0].Keys.Limit)
	}},
	{"a lost state gives no more", func(tr *trial) {
		tr.lose(tr.nodes[0].Keys.State)
	}},
	{"who was refused is served after the wait", func(tr *trial) {
		for served := 0; served < 20; {
			b := tr.reserve(0, 3)
			if b.Schedule.Given > 0 {
				continue
			}
			tr.pass(b.Wait.Microseconds())
			if again := tr.reserve(0, 3); again.Schedule.Given == 0 {
				tr.Fatalf("%s: got a wait of %v, and refused then for %v", tr.a.Name, b.Wait, again.Wait)
			}
			served++
		}
	}},
	{"saturated, the share is used", func(tr *trial) {
		given, most, share := tr.used()
		tr.Logf("used %.3f of the cap, %.3f was promised", share, tr.a.Share(tr.c))
		if tr.a.Ahead && given > most {
			tr.above = fmt.Sprintf("%d units were granted, and its Share of %.3f allows %d: an algorithm that reserves ahead grants no more than its Share",
				given, tr.a.Share(tr.c), most)
		}
		if share < tr.a.Share(tr.c)-0.05 && tr.mini != nil {
			tr.Errorf("%s: used %.3f of the cap, and %.3f was promised", tr.a.Name, share, tr.a.Share(tr.c))
		}
	}},
	{"units that were not used are granted again where the row says so", func(tr *trial) {
		tr.pass(2 * limit.Windowed(tr.c).Microseconds())
		for tr.reserve(0, 1).Schedule.Given > 0 {
		}
		given := min(3, int64(len(tr.grants)))
		if given == 0 {
			tr.Fatalf("%s: got no unit, want some to give back", tr.a.Name)
		}
		tr.unused = tr.dropped(given)
		again := int64(0)
		for range 5 {
			again += tr.reserve(1, 1).Schedule.Given
		}
		if want := map[bool]int64{true: given}[tr.a.Refunds]; again != want && tr.mini != nil {
			tr.Errorf("%s: got %d units where %d were given back, want %d: its row says Refunds: %v", tr.a.Name, again, given, want, tr.a.Refunds)
		}
	}},
	{"units that are given back late give no more", func(tr *trial) {
		length := limit.Windowed(tr.c).Microseconds()
		tr.pass(3*length - tr.now%length)
		tr.reserve(0, tr.c.Cap/2)
		unused := tr.dropped(min(tr.c.Cap/4, int64(len(tr.grants))))
		tr.pass(length / 2)
		tr.reserve(0, tr.c.Cap/2)
		tr.unused = unused
		tr.saturate(2*length, 1)

		tr.pass(4*length - tr.now%length) // to the beginning of a bucket
		tr.reserve(0, 1)
		tr.pass(length - tr.now%length - 20_000)
		unused = tr.dropped(tr.reserve(0, tr.c.Cap).Schedule.Given)
		tr.pass(25_000)
		tr.reserve(0, 1)
		tr.pass(length - tr.now%length - 20_000)
		tr.reserve(0, tr.c.Cap)
		tr.unused = unused
		tr.reserve(0, tr.c.Cap)
		tr.saturate(2*length, 1)
	}},
	{"slots are ahead of their time where the row says so", func(tr *trial) {
		var given, ahead int64
		for range 20 {
			b := tr.reserve(0, 3)
			for j := range b.Schedule.Given {
				given++
				if b.Schedule.At(j) > b.Now+notice {
					ahead++
				}
			}
			tr.pass(max(b.Wait.Microseconds(), 5_000))
		}
		if given == 0 || tr.a.Ahead != (ahead > 0) {
			tr.Errorf("%s: %d of %d slots lie ahead of their time, and its row says Ahead: %v", tr.a.Name, ahead, given, tr.a.Ahead)
		}
	}},
	{"another cap gives no more than the larger", func(tr *trial) {
		for _, part := range []int64{2, 1, 4, 1} {
			tr.saturate(tr.c.Window.Microseconds()/2, tr.c.Cap)
			next := tr.worstCap() / part
			tr.set(control.Change{Values: parameters.Values{"cap": fmt.Sprint(next)}})
		}
		tr.saturate(tr.c.Window.Microseconds(), tr.c.Cap)
	}},
	{"a longer window holds no more either", func(tr *trial) {
		tr.pass(2 * limit.Windowed(tr.c).Microseconds())
		tr.saturate(tr.c.Window.Microseconds(), 1)
		tr.pass(limit.Windowed(tr.c).Microseconds())
		tr.reserve(0, 1) // all but this one has left the window
		longer := 3 * tr.c.Window
		tr.set(control.Change{Values: parameters.Values{"window": longer.String()}})
		changed := tr.now
		tr.saturate(2*longer.Microseconds(), 1)
		if tr.a.Ahead {
			changed += tr.c.Horizon.Microseconds()
		} else {
			changed += notice
		}
		i := slices.IndexFunc(tr.grants, func(at int64) bool { return at > changed })
		switch {
		case i < 0:
			tr.Errorf("%s: no unit was granted in the two windows of %v behind the change", tr.a.Name, longer)
		case tr.looksBack():
			old := tr.grants[i] - limit.Windowed(tr.c).Microseconds()
			for i > 0 && tr.grants[i-1] > old {
				i--
			}
			tr.grants = tr.grants[i:] // before, only the shorter window was promised
		default:
			tr.grants = tr.grants[i:] // a pace that is kept behind the change
		}
	}},
	{"whatever happens, no window holds more", func(tr *trial) {
		roll, ops := diceOf(uint64(len(tr.a.Name))), 600
		if tr.mini == nil {
			ops = 300
		}
		for op := 0; op < ops || len(tr.grants) < 20 && op < 10*ops; op++ {
			tr.happen(roll)
		}
		if len(tr.grants) < 20 {
			tr.Errorf("%s: got %d units; so few prove nothing", tr.a.Name, len(tr.grants))
		}
	}},
}

// used saturates the limit for some windows. It returns how many units were granted, how
// many the Share of an algorithm that reserves ahead allows with a full bucket to begin
// with, and the part of the cap that was used.
func (tr *trial) used() (given, most int64, share float64) {
	tr.Helper()
	tr.pass(2 * limit.Windowed(tr.c).Microseconds())
	us := 4 * tr.c.Window.Microseconds()
	if tr.mini != nil {
		us *= 3
	}
	began := tr.now
	given = tr.saturate(us, max(1, tr.c.Cap/50))
	window := float64(tr.c.Window.Microseconds())
	reached := float64(tr.now-began+tr.c.Horizon.Microseconds()) / window
	most = tr.c.Burst + int64(math.Ceil(tr.a.Share(tr.c)*float64(tr.c.Cap)*reached))
	return given, most, float64(given) / (float64(tr.c.Cap) * float64(us) / window)
}

// looksBack says that units of before a change count in a longer window too.
func (tr *trial) looksBack() bool { return !tr.a.Ahead && tr.a.Cooldown(tr.c) == limit.Windowed(tr.c) }

// worstCap is what the trials begin with.
func (*trial) worstCap() int64 { return 40 }

// lose deletes a key at the worst time, when all has just been given.
func (tr *trial) lose(key string) {
	tr.Helper()
	length := limit.Windowed(tr.c).Microseconds()
	tr.pass(2 * length)
	for range 4 {
		tr.saturate(length/3, tr.c.Cap)
		tr.reserve(0, tr.c.Cap)
		tr.del(key)
	}
	tr.saturate(2*length, tr.c.Cap)
}

func (tr *trial) happen(roll dice) {
	tr.Helper()
	node := int(roll(int64(len(tr.nodes))))
	switch p := roll(100); {
	case p < 60:
		b := tr.reserve(node, 1+roll([]int64{5, tr.c.Cap}[roll(2)]))
		if again := tr.ask(node, 1); b.Schedule.Given > 0 && again.Schedule != b.Schedule {
			tr.Errorf("%s: the same number got other slots: %v, then %v", tr.a.Name, b.Schedule, again.Schedule)
		}
		if roll(3) == 0 {
			tr.unused = append(tr.unused, tr.dropped(roll(b.Schedule.Given+1))...)
		}
	case p < 96:
		tr.pass(roll([]int64{1_000, 20_000, 300_000}[roll(3)]) / tr.slow())
	case p < 99:
		next := tr.c.Burst + roll(tr.worstCap()-tr.c.Burst+1)
		tr.poll() // brings back what was deleted
		tr.set(control.Change{Values: parameters.Values{"cap": fmt.Sprint(next)}})
		tr.poll()
	default:
		tr.del([]string{tr.nodes[0].Keys.Limit, tr.nodes[0].Keys.State}[roll(2)])
	}
}

// slow makes pauses shorter where they take real time.
func (tr *trial) slow() int64 {
	if tr.mini == nil {
		return 3
	}
	return 1
}

// The laws have teeth: without a rule, they find what it prevents.
func TestConformanceFindsWhatARulePrevents(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, m := range []struct{ algorithm, rule, from, to, law string }{
		{"sliding_window_log", "a lost state is noticed", "redis.call('EXISTS', KEYS[3]) == 1", "true", "a lost state gives no more"},
		{"sliding_window_list", "a lost state is noticed", "redis.call('EXISTS', KEYS[3]) == 1", "true", "a lost state gives no more"},
		{"fixed_window", "a lost state is noticed", "redis.call('EXISTS', KEYS[3]) == 1", "true", "a lost state gives no more"},
		{"sliding_window_counter", "a lost state is noticed", "redis.call('EXISTS', KEYS[3]) == 1", "true", "a lost state gives no more"},
		{"fixed_window", "what a longer window counts again is waited for", forgottenCount, "", "a longer window holds no more either"},
		{"sliding_window_log", "each run is kept while it counts", "newest('time', now - long)", "newest('time', now - long + 50000)", "no window holds more after a late burst"},
		{"sliding_window_list", "each run is kept while it counts", "newest('time', now - long)", "newest('time', now - long + 50000)", "no window holds more after a late burst"},
		{"sliding_window_log", "the units of a run are counted", "int(now) .. ' ' .. int(number)", "int(now) .. ' ' .. int(math.ceil(number / 2))", "no window holds more after a late burst"},
		{"sliding_window_log", "the times of runs stay", "= int(time) .. ' ' .. int(number - moved)", "= int(time - 50000) .. ' ' .. int(number - moved)", "units that are given back late give no more"},
		{"fixed_window", "units of the window before are over", "one.slot >= first", "true", "units that are given back late give no more"},
		{"sliding_window_counter", "units go back to their own bucket", "one.slot >= start and", "", "units that are given back late give no more"},
		{"leaky_bucket", "the exact pace", "base = bucket.base + turned * c.period", "base = bucket.base + turned * c.period - 1000", "saturated, the share is used"},
	} {
		t.Run(m.algorithm+" without "+m.rule, func(t *testing.T) {
			t.Parallel()
			if over := breaks(t, m.algorithm, m.from, m.to, m.law); !over {
				t.Errorf("without it, %q still held", m.law)
			}
		})
	}
}

// The law of the share finds a script that grants more than its row says.
func TestConformanceFindsMoreThanTheShare(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, a := range limit.Algorithms() {
		if !a.Ahead {
			continue
		}
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			whole := a.Share
			a.Share = func(c limit.Contract) float64 { return whole(c) / 2 }
			if given, most, _ := newTrial(t, "", a, trialContract(a, time.Second), 1).used(); given <= most {
				t.Errorf("%d units were granted, and half of the share still allows %d", given, most)
			}
		})
	}
}

// breaks plays a law with a script that was changed.
func breaks(t *testing.T, algorithm, from, to, law string) bool {
	t.Helper()
	a, err := limit.AlgorithmNamed(algorithm)
	if err != nil {
		t.Fatal(err)
	}
	text := without(t, scriptOf(algorithm), from, to)
	tr := newTrial(t, "", a, trialContract(a, time.Second), 3)
	for i := range tr.nodes {
		tr.nodes[i].Reserving[algorithm] = redis.NewScript(text)
	}
	for _, l := range conforming {
		if l.name == law {
			l.law(tr)
		}
	}
	return tr.found() > tr.worst || tr.above != ""
}
