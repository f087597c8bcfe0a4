package throttle

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"dispatcher/lua"
	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/slots"
	"dispatcher/throttle/limit"
)

// oneGoroutine leaves a test out under the race detector, which takes four times as long and has nothing to find: one goroutine
// plays the whole fleet. Go test without the detector runs it.
func oneGoroutine(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("one goroutine plays this fleet: there is no race to find")
	}
}

// findHistory plays histories, from the first one that breaks the law on, until one does: play says how.
func findHistory(t *testing.T, first, histories uint64, play func(dice) (how string)) {
	t.Helper()
	for n := range histories {
		seed := (first + n) % histories
		if how := play(diceOf(seed)); how != "" {
			t.Logf("history %d: %s", seed, how)
			return
		}
	}
	t.Error("nothing was found")
}

// seeded are the settings that a file seeds.
func seeded(c limit.Contract, g ...limit.Guardrails) limit.Settings {
	s := specOf(c)
	if len(g) > 0 {
		s.Guardrails = g[0]
	}
	return s.Settings()
}

func seededBy(algorithm string, c limit.Contract) limit.Settings {
	s := specOf(c)
	s.Algorithm = algorithm
	return s.Settings()
}

// specOf is a limit with a contract, as a file states it.
func specOf(c limit.Contract) limit.Spec {
	s := limit.Spec{Terms: limit.Terms{Contract: c}}
	if c.Reserve > 0 {
		s.Degraded = limit.DegradedReserve
	}
	return s
}

// charged is a slot that begins now and counts a job.
func (l *Limiter) charged(job Request, at, epoch int64) Slot {
	return l.slots.Slot(time.Now(), time.Time{}, 0, 0, &slots.Charge{Job: job, At: at, Epoch: epoch})
}

// algorithm is the one of a name that exists.
func algorithm(name string) limit.Algorithm {
	a, err := limit.AlgorithmNamed(name)
	if err != nil {
		panic(err)
	}
	return a
}

// scopedSpec is a limit that each node keeps for itself.
func scopedSpec(c limit.Contract, warmUp time.Duration) limit.Spec {
	s := specOf(c)
	s.Scope, s.WarmUp = limit.ScopeNode, warmUp
	return s
}

// scriptOf is the script that reserves by an algorithm.
func scriptOf(name string) string {
	a := algorithm(name)
	return lua.Reserve(a.Name, a.Script, a.Ahead)
}

// fullest is how many of the times, in µs, lie in the fullest window. It sorts them.
func fullest(arrived []int64, window time.Duration) int {
	slices.Sort(arrived)
	most, first := 0, 0
	for i, at := range arrived {
		for arrived[first] <= at-window.Microseconds() {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// notice is how far ahead slots for now lie, in µs: NOTICE of reserve/pick.lua.
const notice = 5_000

// without is a script in which a rule was replaced.
func without(t testing.TB, text, from, to string) string {
	t.Helper()
	if strings.Count(text, from) != 1 {
		t.Fatalf("the script has not exactly one %q; name the rule again", from)
	}
	return strings.Replace(text, from, to, 1)
}

// promote has another master go on with what this one had of a limit.
func promote(t tester, rdb redis.UniversalClient, limitKey string) {
	if err := rdb.HSet(contextOf(t), limitKey, "master", "another").Err(); err != nil {
		t.Fatal(err)
	}
}

// redisTime is Redis's time in a history: the embedded one's own, or that of a real one.
type redisTime struct {
	mini *miniredis.Miniredis // nil: a real one
	now  int64                // in µs
	skew int64                // Redis's clock − true time
}

// pass lets µs go by.
func (s *redisTime) pass(us int64) {
	s.now += us
	if s.mini == nil {
		time.Sleep(clock.Duration(us))
		return
	}
	s.mini.SetTime(time.UnixMicro(s.now + s.skew))
	s.mini.FastForward(clock.Duration(us))
}
