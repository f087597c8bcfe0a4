package throttle

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dispatcher/throttle/lateness"
	"dispatcher/throttle/limit"
)

func autoContract(window time.Duration) limit.Contract {
	c := contract(300)
	c.Window, c.Spread = window, limit.DefaultSpread
	return c.WithLateness(limit.DefaultLateness)
}

// drawCounts draws a second or ten of slots; most are in time.
func drawCounts(t *rapid.T, name string) (c lateness.Counts) {
	c[0] = rapid.Int64Range(0, 3000).Draw(t, name)
	for i := 1; i < len(c); i++ {
		c[i] = rapid.Int64Range(0, 1+c[0]/20).Draw(t, name)
	}
	return c
}

func drawEvidence(t *rapid.T) lateness.Evidence {
	e := lateness.Evidence{Since: time.Duration(rapid.Int64Range(0, int64(10*time.Minute)).Draw(t, "since"))}
	for range rapid.IntRange(0, 5).Draw(t, "seconds") {
		e.Seconds = append(e.Seconds, drawCounts(t, "second"))
	}
	for range rapid.IntRange(0, 30).Draw(t, "tens") {
		e.Tens = append(e.Tens, drawCounts(t, "ten"))
	}
	return e
}

// A lateness that is chosen is a class that fits the window, is another one than
// before, and makes a contract that can be kept. A lower one is chosen only after
// five minutes.
func TestChosenLatenessFits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := autoContract(time.Duration(rapid.Int64Range(100, 10_000).Draw(t, "window_ms")) * time.Millisecond)
		c = c.WithLateness(rapid.SampledFrom(limit.LatenessClasses[:]).Draw(t, "lateness"))
		e := drawEvidence(t)
		got, ok := lateness.Choose(c, e)
		if !ok {
			return
		}
		to := c.WithLateness(got.Lateness)
		if err := to.Validate(); err != nil || to.Lateness != got.Lateness || got.Lateness == c.Lateness {
			t.Fatalf("got lateness %v instead of %v in a window of %v: %v", got.Lateness, c.Lateness, c.Window, err)
		}
		if got.Lateness > limit.LatenessClasses[0] && got.Lateness*20 > c.Window {
			t.Fatalf("got lateness %v, more than a twentieth of %v", got.Lateness, c.Window)
		}
		if got.Lateness < c.Lateness && e.Since < 5*time.Minute {
			t.Fatalf("got lateness %v instead of %v after %v of counting", got.Lateness, c.Lateness, e.Since)
		}
	})
}

// However late slots are, a lateness takes no more than a twentieth of the window,
// and leaves a contract that can be kept.
func TestLatenessTakesATwentiethOfTheWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := autoContract(time.Duration(rapid.Int64Range(100, 3000).Draw(t, "window_ms")) * time.Millisecond)
		c = c.WithLateness(time.Duration(rapid.Int64Range(1, 100).Draw(t, "lateness_ms")) * time.Millisecond)
		if err := c.Validate(); err != nil || c.Lateness > limit.LatenessClasses[0] && c.Lateness*20 > c.Window {
			t.Fatalf("got lateness %v in a window of %v: %v", c.Lateness, c.Window, err)
		}
	})
}

// No class would have used more of the cap than the best one.
func TestBestLatenessUsesMost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := autoContract(time.Duration(rapid.Int64Range(100, 10_000).Draw(t, "window_ms")) * time.Millisecond)
		counts := drawCounts(t, "count")
		best, in, used := counts.Best(c), int64(0), map[time.Duration]float64{}
		for i, class := range limit.LatenessClasses {
			in += counts[i]
			used[class] = float64(c.Window) / float64(c.Window+class+c.Spread) * float64(in) / float64(max(1, counts.Total()))
		}
		for class, u := range used {
			if counts.Total() > 0 && c.Fits(class) && u > used[best]+1e-12 {
				t.Fatalf("%v: got best %v with %.5f, but %v would have used %.5f", counts, best, used[best], class, u)
			}
		}
	})
}

// A few slots choose nothing, however late they were.
func TestFewSlotsChooseNoLateness(t *testing.T) {
	t.Parallel()
	second := lateness.Counts{0: 6, 4: lateness.LeastSlots/5 - 7}
	e := lateness.Evidence{Since: time.Hour, Seconds: []lateness.Counts{second, second, second, second, second}}
	if got, ok := lateness.Choose(autoContract(time.Second), e); ok {
		t.Errorf("got lateness %v by %d slots", got.Lateness, 5*second.Total())
	}
	e.Seconds[0][4] += 5
	if _, ok := lateness.Choose(autoContract(time.Second), e); !ok {
		t.Errorf("no lateness was chosen by %d slots of which most are late", lateness.LeastSlots)
	}
}

// One stop of the whole machine, however many slots it makes late, is no reason
// to wait longer for all the others.
func TestOneStopChoosesNoLateness(t *testing.T) {
	t.Parallel()
	good, bad := lateness.Counts{0: 300}, lateness.Counts{0: 270, 5: 30}
	e := lateness.Evidence{Since: 20 * time.Second, Seconds: []lateness.Counts{good, bad, bad, good, good}}
	if got, ok := lateness.Choose(autoContract(time.Second), e); ok {
		t.Errorf("got lateness %v by a stop that falls into two seconds", got.Lateness)
	}
	e.Seconds[0], e.Seconds[3] = bad, bad
	if got, ok := lateness.Choose(autoContract(time.Second), e); !ok || got.Lateness != 30*time.Millisecond {
		t.Errorf("got lateness %v, %v by stops in four of five seconds, want 30ms", got.Lateness, ok)
	}
}

// fleetOfClocks simulates nodes that share the slots of a limit and that are
// stopped at times of their own. Each second it counts slots by how late they
// were, and chooses as the fleet does.
type fleetOfClocks struct {
	c       limit.Contract
	r       *rand.Rand
	stalls  []stallsOf // one each node
	seconds []lateness.Counts
	tens    []lateness.Counts
	since   int // seconds
	now     int // likewise

	fell     int // when the lateness did; 0: never
	patience time.Duration

	slots, used float64 // of the cap of all seconds so far
	changes     int
}

// stallsOf is when one node is stopped: times in seconds.
type stallsOf struct {
	share       float64 // of the time
	least, most float64 // one stop
	from, to    float64 // the next or current one
}

// late is by how much a slot of the node at t is late.
func (s *stallsOf) late(r *rand.Rand, t float64) float64 {
	for s.share > 0 && t >= s.to {
		length := s.least + r.Float64()*(s.most-s.least)
		s.from = s.to + r.ExpFloat64()*(s.least+s.most)/2*(1-s.share)/s.share
		s.to = s.from + length
	}
	noise := r.ExpFloat64() * 0.0004
	if t >= s.from && t < s.to {
		return s.to - t + noise
	}
	return noise
}

func (f *fleetOfClocks) second(at int) {
	var counts lateness.Counts
	n := int(float64(f.c.Cap) * f.c.Share())
	for i := range n {
		t := float64(at) + float64(i)/float64(n)
		late := f.stalls[i/6%len(f.stalls)].late(f.r, t)
		counts[limit.LatenessClass(time.Duration(late*float64(time.Second)))]++
	}
	f.slots += float64(f.c.Cap)
	f.used += float64(f.c.Cap) * counts.Used(f.c, f.c.Lateness)
	f.seconds = newest(counts, f.seconds, 5)
	if f.since%10 == 0 {
		f.tens = newest(lateness.Counts{}, f.tens, 32)
	}
	f.tens[0].Add(counts)
	f.since++
	if !f.c.Auto {
		return
	}
	if to, ok := lateness.Choose(f.c, lateness.Evidence{Since: time.Duration(f.since) * time.Second, Patience: f.patience, Seconds: f.seconds, Tens: f.tens}); ok {
		if to.Lateness > f.c.Lateness { // counts from before say no more to go down by
			f.seconds, f.tens, f.since = nil, nil, 0
			fell := -time.Second
			if f.fell > 0 {
				fell = time.Duration(at-f.fell) * time.Second
			}
			f.patience = lateness.PatienceAfter(f.patience, fell)
		} else {
			f.fell = at
		}
		f.c = f.c.WithLateness(to.Lateness)
		f.changes++
	}
}

// newest puts a count in front of the others, and keeps so many.
func newest(c lateness.Counts, others []lateness.Counts, kept int) []lateness.Counts {
	return append([]lateness.Counts{c}, others[:min(len(others), kept-1)]...)
}

func newFleetOfClocks(c limit.Contract, seed uint64, stalls stallsOf) *fleetOfClocks {
	return &fleetOfClocks{c: c, patience: lateness.LeastPatience, r: rand.New(rand.NewPCG(seed, 7)), stalls: []stallsOf{stalls, stalls, stalls}}
}

// play returns the share of the cap that was used from a second on.
func (f *fleetOfClocks) play(seconds, from int) float64 {
	for i := range seconds {
		if i == from {
			f.slots, f.used = 0, 0
		}
		f.second(f.now)
		f.now++
	}
	return f.used / f.slots
}

// What the fleet uses with a guard of auto, beside one of 10 ms, on machines that
// stop their nodes and on one that does not.
func TestAutoUsesTheCapOnStallingMachines(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]struct {
		stalls stallsOf
		want   float64
	}{
		"quiet":                                 {stallsOf{}, 0.985},
		"3 % of the time, 5 to 40 ms":           {stallsOf{share: 0.03, least: 0.005, most: 0.040}, 0.965},
		"6 % of the time, 5 to 40 ms":           {stallsOf{share: 0.06, least: 0.005, most: 0.040}, 0.945},
		"10 % of the time, 5 to 15 ms":          {stallsOf{share: 0.10, least: 0.005, most: 0.015}, 0.965},
		"3 % of the time, too long for a class": {stallsOf{share: 0.03, least: 0.200, most: 0.400}, 0.95},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fixed := autoContract(time.Second)
			fixed.Auto = false
			before := newFleetOfClocks(fixed, 1, m.stalls).play(600, 120)
			f := newFleetOfClocks(autoContract(time.Second), 1, m.stalls)
			auto := f.play(600, 120)
			t.Logf("used with 10ms/3ms %.4f, with auto %.4f, %d changes, lateness %v", before, auto, f.changes, f.c.Lateness)
			if auto < m.want || auto < before-0.002 {
				t.Errorf("got %.4f of the cap used, want at least %.3f, and %.4f with a fixed guard", auto, m.want, before)
			}
		})
	}
}

// A machine that is as it was does not make the fleet change its mind all the
// time.
func TestLatenessDoesNotFlap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := stallsOf{
			share: rapid.Float64Range(0, 0.1).Draw(t, "share"),
			least: rapid.Float64Range(0.001, 0.02).Draw(t, "least"),
		}
		s.most = s.least + rapid.Float64Range(0, 0.06).Draw(t, "more")
		f := newFleetOfClocks(autoContract(time.Second), rapid.Uint64().Draw(t, "seed"), s)
		f.play(300, 0)
		f.changes = 0
		f.play(900, 0)
		if f.changes > 4 {
			t.Fatalf("got %d changes in a quarter of an hour of %+v, want 4 at most", f.changes, s)
		}
	})
}

// Up within five seconds of stalls that cost more than a hundredth; down when
// they have been over for five minutes, and not before.
func TestLatenessRisesFastAndFallsSlowly(t *testing.T) {
	t.Parallel()
	bad := stallsOf{share: 0.08, least: 0.005, most: 0.040}
	up, down := math.Inf(1), math.Inf(1)
	f := newFleetOfClocks(autoContract(time.Second), 3, stallsOf{})
	for at := range 1000 {
		switch at {
		case 300:
			f.stalls = []stallsOf{bad, bad, bad}
			for i := range f.stalls {
				f.stalls[i].from, f.stalls[i].to = 300, 300
			}
		case 400:
			f.stalls = []stallsOf{{}, {}, {}}
		}
		f.second(at)
		if f.c.Lateness > limit.DefaultLateness {
			up = min(up, float64(at+1-300))
		}
		if at > 400 && f.c.Lateness == limit.DefaultLateness {
			down = min(down, float64(at+1-400))
		}
	}
	if up > 5 {
		t.Errorf("the lateness rose after %v s, want 5 at most", up)
	}
	if down < 300-100 || down > 310 {
		t.Errorf("the lateness fell after %v s, want about five minutes", down)
	}
}

// A node weighs as much as it has slots: one whose every slot is late moves the
// fleet only where the fleet as a whole gains.
func TestOneBadNodeMovesTheFleetByItsSlotsOnly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := autoContract(time.Second)
		good := rapid.Int64Range(100, 1000).Draw(t, "good")
		bad := rapid.Int64Range(0, good).Draw(t, "bad")
		class := rapid.IntRange(1, len(limit.LatenessClasses)-1).Draw(t, "class")
		second := lateness.Counts{0: good}
		second[class] = bad
		e := lateness.Evidence{Seconds: []lateness.Counts{second, second, second, second, second}}
		got, ok := lateness.Choose(c, e)
		gain := 1/(1+(limit.LatenessClasses[class]+c.Spread).Seconds()) - float64(good)/float64(good+bad)/(1+c.Guard.Seconds())
		if ok != (gain > 0.01) || ok && got.Lateness != limit.LatenessClasses[class] {
			t.Fatalf("%d good slots and %d late by %v: got %v, %v; the gain is %.4f", good, bad, limit.LatenessClasses[class], got.Lateness, ok, gain)
		}
	})
}
