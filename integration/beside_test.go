package integration

import (
	"flag"
	"math"
	"slices"
	"testing"
	"time"

	"dispatcher/internal/containers"
)

var (
	earlier = flag.String("before", "", "path of an earlier build's binary, that TestBeside compares with")
	// The ratio of one turn is off by 4 to 6 % of Redis's time and of the CPU, so the median of 5 turns is off by 3 %, that of 20 by 1.5.
	turns = flag.Int("turns", 20, "how often the two builds that TestBeside compares are run")
)

// alike are settings for comparisons. The fleet's own choice follows the stops of the machine, and changes how often nodes ask. With
// these, both sides ask alike.
var alike = []string{"limits.0.lateness=10ms", "limits.0.guard=20ms"}

// besides is what is compared: of each build, a value a turn.
type besides struct {
	name   string
	values [2][]float64 // of the earlier build and of this one
	most   float64      // times the other's that this build's value is, in the median of the turns; 0: any
	least  float64      // likewise, at least; 0: any
}

func (b *besides) add(values [2]float64) {
	for build, v := range values {
		b.values[build] = append(b.values[build], v)
	}
}

// ratio is the median of those of the turns. Where both builds have the same, which may be none, it is 1.
func (b *besides) ratio() float64 {
	var ratios []float64
	for turn, now := range b.values[1] {
		ratio := 1.0
		if before := b.values[0][turn]; now != before {
			ratio = now / before
		}
		ratios = append(ratios, ratio)
	}
	if len(ratios) == 0 {
		return math.NaN() // neither at most nor at least anything
	}
	slices.Sort(ratios)
	return (ratios[len(ratios)/2] + ratios[(len(ratios)-1)/2]) / 2
}

// pair is a fleet of each of the two builds, that work at the same time, each with a Redis of its own. So what else the machine does,
// and how fast it is just then, meets both alike.
type pair [2]*servers

func startPair(t *testing.T) pair {
	t.Helper()
	now := startServers(t, containers.Kafka)
	before := startServers(t, func(testing.TB) *containers.Server { return now.kafka })
	before.dispatcher, before.shared, now.shared = *earlier, true, true
	before.scenarios.Store(1000) // their topics have other names
	return pair{before, now}
}

// play has both fleets do that, and exchanges their servers for the next turn. Where one fails, the turn has no values.
func (p pair) play(t *testing.T, name string, do func(*testing.T, *servers) map[*besides]float64) {
	t.Helper()
	var found [2]map[*besides]float64
	t.Run(name, func(t *testing.T) {
		for build, w := range p {
			t.Run([2]string{"before", "now"}[build], func(t *testing.T) {
				t.Parallel()
				found[build] = do(t, w)
			})
		}
	})
	for b, before := range found[0] {
		if now, ok := found[1][b]; ok {
			b.add([2]float64{before, now})
		}
	}
	p[0].redis, p[0].rdb, p[1].redis, p[1].rdb = p[1].redis, p[1].rdb, p[0].redis, p[0].rdb
}

// What a fleet of one limit uses of the cap, of Redis and of its processors, beside an earlier build.
func TestBeside(t *testing.T) {
	if *earlier == "" {
		t.Skip("-before=PATH compares with that binary, and so does make beside BEFORE=PATH")
	}
	const worse = 1.03
	// A node that joins the group of others stops these for about 70 ms, or does not, as it happens: so what is used counts behind that.
	used := &besides{name: "of the cap used by 3 nodes under 300/s", least: 0.995}
	calls := &besides{name: "script calls a job of 3 nodes", most: worse}
	ofRedis := &besides{name: "us of Redis a job of 3 nodes", most: worse}
	usedByTen := &besides{name: "of the cap used by 10 nodes under 200/s", least: 0.995}
	callsOfTen := &besides{name: "script calls a job of 10 nodes", most: worse}
	redisOfTen := &besides{name: "us of Redis a job of 10 nodes under 200/s", most: worse}
	lateOfTen := &besides{name: "late slots of 10 nodes"}
	cpu := &besides{name: "us of a node's CPU a job", most: worse}
	p := startPair(t)
	for range *turns {
		p.play(t, "3 nodes", func(t *testing.T, w *servers) map[*besides]float64 {
			t.Helper()
			r := w.play(t, target{nodes: 3, cap: 300, jobs: 3000, settings: alike})
			return map[*besides]float64{used: r.steady, calls: r.scriptCalls, ofRedis: inMicros(r.redis)}
		})
		p.play(t, "10 nodes", func(t *testing.T, w *servers) map[*besides]float64 {
			t.Helper()
			r := w.play(t, target{nodes: 10, cap: 200, jobs: 2000, settings: alike})
			return map[*besides]float64{usedByTen: r.steady, callsOfTen: r.scriptCalls, redisOfTen: inMicros(r.redis), lateOfTen: r.late}
		})
		p.play(t, "unbound", func(t *testing.T, w *servers) map[*besides]float64 {
			t.Helper()
			return map[*besides]float64{cpu: inMicros(w.unbound(t))}
		})
	}
	for _, b := range []*besides{used, calls, ofRedis, usedByTen, callsOfTen, redisOfTen, lateOfTen, cpu} {
		ratio := b.ratio()
		t.Logf("%s: %.4g before, %.4g now; the median of the turns' ratios is %.3f", b.name, b.values[0], b.values[1], ratio)
		figure(t, b.most == 0 || ratio <= b.most, "%s: got %.3f times as many as before, want at most %.2f", b.name, ratio, b.most)
		figure(t, b.least == 0 || ratio >= b.least, "%s: got %.4f times as much as before, want at least %.3f", b.name, ratio, b.least)
	}
}

func inMicros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
