package integration

import (
	"flag"
	"slices"
	"testing"
	"time"

	"dispatcher/internal/containers"
)

var (
	earlier = flag.String("before", "", "path of an earlier build's binary, that TestBeside compares with")
	turns   = flag.Int("turns", 5, "how often each of the two builds that TestBeside compares is run")
)

// besides is what is compared: of each build, a value a turn.
type besides struct {
	name   string
	values [2][]float64 // of the earlier build and of this one
	most   float64      // this build's median is at most so many times the other's; 0: any
	least  float64      // and at least so many times; 0: any
}

func (b *besides) add(build int, value float64) { b.values[build] = append(b.values[build], value) }

func (b *besides) median(build int) float64 {
	sorted := slices.Sorted(slices.Values(b.values[build]))
	return (sorted[len(sorted)/2] + sorted[(len(sorted)-1)/2]) / 2
}

// What a fleet of one limit uses of the cap, of Redis and of its processors, beside an earlier build: the two take turns, since what
// else the machine does would otherwise be counted as the difference.
func TestBeside(t *testing.T) {
	if *earlier == "" {
		t.Skip("-before=PATH compares with that binary, and so does make beside BEFORE=PATH")
	}
	w := startServers(t, containers.Kafka)
	builds := [2]string{*earlier, w.dispatcher}
	const worse = 1.03
	// The fleet's own choice follows the stops of the machine, and changes how often nodes ask. With these, both builds ask alike.
	stated := []string{"limits.0.lateness=10ms", "limits.0.guard=20ms"}
	used := &besides{name: "of the cap used by 3 nodes under 300/s", least: 0.995}
	calls := &besides{name: "script calls a job of 3 nodes", most: worse}
	redis := &besides{name: "us of Redis a job of 3 nodes", most: worse}
	callsOfTen := &besides{name: "script calls a job of 10 nodes", most: worse}
	redisOfTen := &besides{name: "us of Redis a job of 10 nodes under 200/s", most: worse}
	usedByTen := &besides{name: "of the cap used by 10 nodes under 200/s", least: 0.995}
	lateOfTen := &besides{name: "late slots of 10 nodes"}
	cpu := &besides{name: "us of a node's CPU a job", most: worse}
	for turn := range 2 * *turns {
		build := (turn + turn/2) % 2 // 0 1 1 0 0 1 …
		w.dispatcher = builds[build]
		three := w.play(t, target{nodes: 3, cap: 300, jobs: 3000, settings: stated})
		used.add(build, three.Utilisation)
		calls.add(build, three.scriptCalls)
		redis.add(build, inMicros(three.redis))
		ten := w.play(t, target{nodes: 10, cap: 200, jobs: 2000, settings: stated})
		callsOfTen.add(build, ten.scriptCalls)
		redisOfTen.add(build, inMicros(ten.redis))
		usedByTen.add(build, ten.Utilisation)
		lateOfTen.add(build, ten.late)
		cpu.add(build, inMicros(w.unbound(t)))
	}
	for _, b := range []*besides{used, calls, redis, usedByTen, callsOfTen, redisOfTen, lateOfTen, cpu} {
		ratio := b.median(1) / b.median(0)
		t.Logf("%s: %.4g before, %.4g now; medians %.4g and %.4g, ratio %.3f", b.name, b.values[0], b.values[1], b.median(0), b.median(1), ratio)
		figure(t, b.most == 0 || ratio <= b.most, "%s: got %.3f times as many as before, want at most %.2f", b.name, ratio, b.most)
		figure(t, b.least == 0 || ratio >= b.least, "%s: got %.4f times as much as before, want at least %.3f", b.name, ratio, b.least)
	}
}

func inMicros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
