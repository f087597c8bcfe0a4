package dedup

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"
)

// lawNoRepeats plays random histories. Where an unknown call is not repeated, no
// job is called twice; where it is, no job is granted after its done was
// acknowledged.
func lawNoRepeats(t *testing.T, rdb redis.UniversalClient, c clock, text string, take bool, ops int) {
	t.Helper()
	var sum meters
	rapid.Check(t, func(rt *rapid.T) {
		m := history(rt, rdb, c, text, take, rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(ops/2, ops).Draw(rt, "ops"))
		sum.calls += m.calls
		sum.sent += m.sent
		sum.unknown += m.unknown
		sum.zombies += m.zombies
		sum.generations = max(sum.generations, m.generations)
	})
	t.Logf("%d calls, %d deliveries of what was sent, %d unknown, %d late commands, at most %d generations at once",
		sum.calls, sum.sent, sum.unknown, sum.zombies, sum.generations)
	if sum.calls < 100 || sum.sent < 50 || sum.zombies < 100 || sum.generations < 3 || !take && sum.unknown < 50 {
		t.Errorf("got %+v; so few prove nothing", sum)
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

// found is a tester that keeps what was found.
type found struct{ what string }

func (*found) Helper() {}
func (f *found) Fatal(args ...any) {
	f.what = fmt.Sprint(args...)
	panic(f)
}

// breaks plays histories until one breaks the law, and returns what it found.
func breaks(rdb redis.UniversalClient, c clock, text string, take bool, play func(*world)) (what string) {
	f := &found{}
	defer func() {
		if r := recover(); r != nil && r != any(f) {
			panic(r)
		}
		what = f.what
	}()
	play(newWorld(f, rdb, c, text, take, diceOf(1)))
	return ""
}

var mutations = []struct {
	rule, from, to string
	take           bool
	play           func(*world) // a history of its own, where chance finds it too seldom
}{
	{rule: "what was sent is told", from: "if not who then return 2, tonumber(value) or 0 end", to: "if not who then return 0, 0 end", take: true},
	{rule: "one claim a job", from: "if who == me then return 0, 0 end", to: "if who then return 0, 0 end"},
	{rule: "a claim stands", from: "if now < till then return 3, till - now end", to: "", take: true},
	{rule: "an unknown call is told", from: "if verdict == 4 and ARGV[5] == '1' then", to: "if verdict == 4 then"},
	{rule: "a claim is renewed", from: "if verdict == 1 or verdict == 5 then put", to: "if verdict == 1 and not value or verdict == 5 then put", take: true},
	{rule: "older generations are looked at", from: "for i = first, first + generations - 1 do\n    local value", to: "for i = first, first do\n    local value"},
	{rule: "an entry outlives its generation", from: "PEXPIREAT', KEYS[first], int(math.ceil(expires", to: "PEXPIREAT', KEYS[first], int(math.ceil(ends"},
	{rule: "a generation outlives its end", from: "if tonumber(till) > now then kept", to: "if tonumber(till) - window > now then kept"},
	{rule: "a late release ends only its own claim", from: "other <= tonumber(number) then", to: "other then", play: func(w *world) { w.late(verbRelease) }},
	{rule: "a late claim is older than the next", from: "if who == me and other > tonumber(number) then return 3, hold end", to: "", play: func(w *world) { w.late(verbClaim, verbRelease) }},
}

// The laws have teeth: without a rule, they find what it prevents.
func TestLawsFindWhatARulePrevents(t *testing.T) {
	t.Parallel()
	for _, m := range mutations {
		t.Run(m.rule, func(t *testing.T) {
			t.Parallel()
			if strings.Count(asWritten(), m.from) != 1 {
				t.Fatalf("the script has not exactly one %q; name the rule anew", m.from)
			}
			rdb, c := onMini(t)
			text := strings.Replace(asWritten(), m.from, m.to, 1)
			if m.play != nil {
				if what := breaks(rdb, c, asWritten(), m.take, m.play); what != "" {
					t.Errorf("with it: %s", what)
				}
				if what := breaks(rdb, c, text, m.take, m.play); what == "" {
					t.Error("without it, the history broke no law")
				}
				return
			}
			for seed := range uint64(100) {
				if what := breaks(rdb, c, text, m.take, random(seed, 400)); what != "" {
					t.Logf("history %d: %s", seed, what)
					return
				}
			}
			t.Errorf("without it, no history broke a law")
		})
	}
}

func random(seed uint64, ops int) func(*world) {
	return func(w *world) {
		w.roll = diceOf(seed)
		for range ops {
			w.happen()
		}
	}
}
