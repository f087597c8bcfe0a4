package throttle

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// An algorithm is written twice: as a row in Go and as a script. Here the two agree.

// The Cooldown of a row is the cooldown of its script, in whole µs, rounded up.
func TestAScriptCoolsDownAsItsRowSays(t *testing.T) {
	t.Parallel()
	for _, a := range limit.Algorithms() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			contracts := 0
			large := contract(300)
			large.MaxCost = 7
			for _, c := range append(refusedOnce(), large, contract(1), contract(7), contract(300), withReserve(), contractOf(6, time.Minute)) {
				if errorsIn(a, c) != nil {
					c.Burst = 1
				}
				if errorsIn(a, c) != nil {
					continue
				}
				contracts++
				want := (a.Cooldown(c) + time.Microsecond - 1).Truncate(time.Microsecond)
				if got := cooldownOf(t, a, c); got != want {
					t.Errorf("%v, reserve %d: the script cools down for %v, and the row says %v", c, c.Reserve, got, want)
				}
			}
			if contracts < 5 {
				t.Errorf("%d contracts suited; so few prove nothing", contracts)
			}
		})
	}
}

// cooldownOf is how long the script waits after the timeline was lost, but for the
// horizon and the lateness.
func cooldownOf(t *testing.T, a limit.Algorithm, c limit.Contract) time.Duration {
	t.Helper()
	mini, now := miniredis.RunT(t), time.UnixMicro(1_700_000_000_000_000)
	mini.SetTime(now)
	s := script.NewScripts(patient(t, mini.Addr()), "cooldown", "provider", "n")
	// The embedded Redis has no redis-cell, which only begin needs here.
	s.Reserving[a.Name] = redis.NewScript(strings.Replace(scriptOf(a.Name), "  throttle(c, 0)\n", "", 1))
	ask := script.Ask{Seq: 1, Epoch: 1, Identity: string(IdentityNone), Nearest: nearest, Known: seededBy(a.Name, c)}
	first, err := s.Reserve(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	mini.SetTime(now.Add(2 * clock.Duration(first.NotBefore-first.Now)))
	mini.HDel(s.Keys.Limit, "last")
	ask.Known, ask.Learned = first.Settings, true
	lost, err := s.Reserve(t.Context(), ask)
	if err != nil || lost.Cooldown != script.CooldownTimelineLost {
		t.Fatalf("got %v for a timeline that was lost (%v)", lost.Cooldown, err)
	}
	return clock.Duration(lost.NotBefore-lost.Now) - c.Horizon - c.Lateness
}

var (
	declaredFields = regexp.MustCompile(`algorithm = \{fields = \{([^}]*)\}`)
	notedField     = regexp.MustCompile(`note\('(\w+)'`)
	quoted         = regexp.MustCompile(`'(\w+)'`)
)

// A field that an algorithm notes is one that it declares: the frame reads no other.
// It is none of the frame's, and none of the settings, which lie in the same table.
func TestAnAlgorithmDeclaresItsFields(t *testing.T) {
	t.Parallel()
	frame := regexp.MustCompile(`(?s)HMGET', limit, ('settings'.*?), unpack`).FindStringSubmatch(scriptOf(limit.DefaultAlgorithm))
	if frame == nil {
		t.Fatal("the frame reads no fields of its own; name them again")
	}
	packed := seeded(contract(300)).Pack()
	for _, a := range limit.Algorithms() {
		declared := declaredFields.FindStringSubmatch(scriptOf(a.Name))
		if declared == nil {
			t.Errorf("%s: the script declares no fields: local algorithm = {fields = {…}}", a.Name)
			continue
		}
		var fields []string
		for _, f := range quoted.FindAllStringSubmatch(declared[1], -1) {
			fields = append(fields, f[1])
			if strings.Contains(frame[1], f[0]) || strings.Contains(packed, `"`+f[1]+`":`) {
				t.Errorf("%s: the field %s is the frame's, or a setting: take another name", a.Name, f[1])
			}
		}
		text, err := os.ReadFile("../lua/algorithms/" + a.Script + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range notedField.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(fields, f[1]) {
				t.Errorf("%s: notes the field %s and does not declare it: it would never be read", a.Name, f[1])
			}
		}
	}
}
