package dedup

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"
)

// lawNoRepeats plays random histories. If unknown calls are not repeated, no job is
// called twice. If they are, no job is granted after its done was acknowledged.
func lawNoRepeats(t *testing.T, rdb redis.UniversalClient, c clock, text string, take bool, ops int) {
	t.Helper()
	var sum counts
	rapid.Check(t, func(rt *rapid.T) {
		m := history(rt, rdb, c, text, take, rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(ops/2, ops).Draw(rt, "ops"))
		sum.calls += m.calls
		sum.sent += m.sent
		sum.unknown += m.unknown
		sum.late += m.late
		sum.generations = max(sum.generations, m.generations)
	})
	t.Logf("%d calls, %d deliveries of what was sent, %d unknown, %d late commands, at most %d generations at once",
		sum.calls, sum.sent, sum.unknown, sum.late, sum.generations)
	if sum.calls < 100 || sum.sent < 50 || sum.late < 100 || sum.generations < 3 || !take && sum.unknown < 50 {
		t.Errorf("got %+v, want more: so few events prove nothing", sum)
	}
}

func TestNoJobIsCalledTwiceWhereUnknownOnesAreParked(t *testing.T) {
	t.Parallel()
	rdb, c := onMini(t)
	lawNoRepeats(t, rdb, c, asWritten(), false, 600)
}

func TestNoJobIsGrantedAfterItsDoneWasAcknowledged(t *testing.T) {
	t.Parallel()
	rdb, c := onMini(t)
	lawNoRepeats(t, rdb, c, asWritten(), true, 600)
}

// recorder is a tester that keeps the failure.
type recorder struct{ failure string }

func (*recorder) Helper() {}
func (f *recorder) Fatal(args ...any) {
	f.failure = fmt.Sprint(args...)
	panic(f)
}

// breaks plays a history, and returns how it broke the law; empty: it did not.
func breaks(rdb redis.UniversalClient, c clock, text string, take bool, play func(*simulation)) (failure string) {
	f := &recorder{}
	defer func() {
		if r := recover(); r != nil && r != any(f) {
			panic(r)
		}
		failure = f.failure
	}()
	play(newSimulation(f, rdb, c, text, take, diceOf(1)))
	return ""
}

var mutations = []struct {
	rule, from, to string
	take           bool
	play           func(*simulation) // a history of its own, if random ones find it too seldom
}{
	{rule: "a sent job is reported", from: "if not owner then return 2, tonumber(value) or 0 end", to: "if not owner then return 0, 0 end", take: true},
	{rule: "one claim a job", from: "if owner == me then return 0, 0 end", to: "if owner then return 0, 0 end"},
	{rule: "a claim stands", from: "if now < till then return 3, till - now end", to: "", take: true},
	{rule: "an unknown call is reported", from: "if code == 4 and ARGV[5] == '1' then", to: "if code == 4 then"},
	{rule: "a claim is renewed", from: "if code == 1 or code == 5 then put", to: "if code == 1 and not value or code == 5 then put", take: true},
	{rule: "older generations are searched", from: "for i = first, first + generations - 1 do\n    local value", to: "for i = first, first do\n    local value"},
	{rule: "an entry outlives its generation", from: "PEXPIREAT', KEYS[first], int(math.ceil(expires", to: "PEXPIREAT', KEYS[first], int(math.ceil(ends"},
	{rule: "a generation outlives its end", from: "if tonumber(till) > now then kept", to: "if tonumber(till) - window > now then kept"},
	{rule: "a late release ends only its own claim", from: "other <= tonumber(number) then", to: "other then", play: func(w *simulation) { w.late(verbRelease) }},
	{rule: "a late claim is older than the next", from: "if owner == me and other > tonumber(number) then return 3, hold end", to: "", play: func(w *simulation) { w.late(verbClaim, verbRelease) }},
}

// Without one of the script's rules, the simulation finds a broken law.
func TestASimulationFindsEachMissingRule(t *testing.T) {
	t.Parallel()
	for _, m := range mutations {
		t.Run(m.rule, func(t *testing.T) {
			t.Parallel()
			if strings.Count(asWritten(), m.from) != 1 {
				t.Fatalf("got not exactly one %q in the script; correct the rule", m.from)
			}
			rdb, c := onMini(t)
			text := strings.Replace(asWritten(), m.from, m.to, 1)
			if m.play != nil {
				if failure := breaks(rdb, c, asWritten(), m.take, m.play); failure != "" {
					t.Errorf("with the rule: got %s, want no broken law", failure)
				}
				if failure := breaks(rdb, c, text, m.take, m.play); failure == "" {
					t.Error("without the rule: the history broke no law, want one")
				}
				return
			}
			for seed := range uint64(100) {
				if failure := breaks(rdb, c, text, m.take, random(seed, 400)); failure != "" {
					t.Logf("history %d: %s", seed, failure)
					return
				}
			}
			t.Errorf("without the rule: no history broke a law, want one")
		})
	}
}

func random(seed uint64, ops int) func(*simulation) {
	return func(w *simulation) {
		w.roll = diceOf(seed)
		for range ops {
			w.happen()
		}
	}
}
