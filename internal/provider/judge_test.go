package provider_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dispatcher/internal/provider"
)

const ms = time.Millisecond

func at(times ...time.Duration) []provider.Arrival {
	var out []provider.Arrival
	for _, t := range times {
		out = append(out, provider.Arrival{At: t})
	}
	return out
}

func one(most int, window time.Duration) provider.Contract {
	return provider.Contract{Window: window, Caps: []provider.CapFrom{{Cap: most}}}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	second := time.Second
	lowered := provider.Contract{Window: second, Caps: []provider.CapFrom{{Cap: 3}, {From: 10 * second, Cap: 1}}}
	raised := provider.Contract{Window: second, Caps: []provider.CapFrom{{Cap: 1}, {From: 10 * second, Cap: 3}}}
	for _, c := range []struct {
		name     string
		arrivals []provider.Arrival
		stalls   []provider.Stall
		contract provider.Contract
		most     int
		over     []provider.Over
	}{
		{
			"all units of a call count at once",
			[]provider.Arrival{{Key: "a*2"}, {At: 400 * ms, Key: "b"}, {At: 800 * ms, Key: "c*3"}},
			nil, one(5, second), 6,
			[]provider.Over{{At: 0, Count: 6, Allowed: 5}},
		},
		{"nothing came", nil, nil, one(1, second), 0, nil},
		{"half-open: a window apart is not in it", at(0, second), nil, one(1, second), 1, nil},
		{"a nanosecond less is", at(0, second-1), nil, one(1, second), 2, []provider.Over{{At: 0, Count: 2, Allowed: 1}}},
		{
			"no window on the clock's seconds, but one across", at(800*ms, 900*ms, 1100*ms, 1200*ms), nil, one(3, second), 4,
			[]provider.Over{{At: 800 * ms, Count: 4, Allowed: 3}},
		},
		{"any order", at(second-1, 0), nil, one(1, second), 2, []provider.Over{{At: 0, Count: 2, Allowed: 1}}},
		{"just after a cut: the larger holds", at(10400*ms, 10450*ms, 10499*ms), nil, lowered, 3, nil},
		{
			"half a second after it: the new one", at(10500*ms, 10900*ms), nil, lowered, 2,
			[]provider.Over{{At: 10500 * ms, Count: 2, Allowed: 1}},
		},
		{
			"before a rise, not touching it", at(9*second-1, 9*second), nil, raised, 2,
			[]provider.Over{{At: 9*second - 1, Count: 2, Allowed: 1}},
		},
		{
			// [9s, 10s) doesn't reach the change yet; [9.5s, …), where the first one is, does.
			"before a rise, in a window that begins at no arrival", at(9500*ms, 9600*ms), nil, raised, 2,
			[]provider.Over{{At: 9 * second, Count: 2, Allowed: 1}},
		},
		{"a stall in the window", at(0, second-1), []provider.Stall{{From: 500 * ms, To: 501 * ms}}, one(1, second), 1, nil},
		{
			"a stall just after the window", at(0, second-1),
			[]provider.Stall{{From: second, To: 2 * second}},
			one(1, second), 2,
			[]provider.Over{{At: 0, Count: 2, Allowed: 1}},
		},
		{
			"a stall just before it", at(5*second, 5*second+1),
			[]provider.Stall{{From: second, To: 5 * second}},
			one(1, second), 2,
			[]provider.Over{{At: 5 * second, Count: 2, Allowed: 1}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := provider.Judge(c.arrivals, c.stalls, c.contract)
			if v.MaxInWindow != c.most || v.OverCount != len(c.over) || v.Kept() != (len(c.over) == 0) {
				t.Errorf("got most %d, over %d; want %d, %d", v.MaxInWindow, v.OverCount, c.most, len(c.over))
			}
			if diff := cmp.Diff(c.over, v.Over); diff != "" {
				t.Errorf("over (-want +got):\n%s", diff)
			}
		})
	}
}

// Stalls that leave no window judged do not hide calls at three times the cap.
func TestStallsHideNoExcess(t *testing.T) {
	t.Parallel()
	var calls []time.Duration
	for i := range 3000 {
		calls = append(calls, time.Duration(i)*ms)
	}
	var stalls []provider.Stall
	for i := range 4 {
		from := time.Duration(i) * 900 * ms
		stalls = append(stalls, provider.Stall{From: from, To: from + 15*ms})
	}
	if v := provider.Judge(at(calls...), stalls, one(300, time.Second)); v.Unjudged < 0.9 || v.Excess != 3000-4*300 {
		t.Errorf("got %v unjudged and an excess of %d, want more than 0.9 and %d", v.Unjudged, v.Excess, 3000-4*300)
	}
	late := []provider.Stall{{From: 0, To: 900 * ms}} // it delayed the calls of the first second to its end
	if v := provider.Judge(at(900*ms, 900*ms, time.Second, 1900*ms), late, one(2, time.Second)); v.Excess != 0 {
		t.Errorf("got an excess of %d, want none: a stall delayed the first calls", v.Excess)
	}
}

func TestFewCallsNeedNoJudge(t *testing.T) {
	t.Parallel()
	lowered := provider.Contract{Window: time.Second, Caps: []provider.CapFrom{{Cap: 3}, {From: time.Second, Cap: 2}}}
	for calls, want := range map[int]bool{2: true, 3: false} {
		v := provider.Verdict{Units: calls}
		if got := lowered.Needless(v); got != want {
			t.Errorf("%d calls: got %v, want %v", calls, got, want)
		}
	}
}

func TestJudgeCountsKeys(t *testing.T) {
	t.Parallel()
	v := provider.Judge([]provider.Arrival{
		{Key: "a", Status: 200},
		{Key: "a", Status: 200},
		{Key: "b", Status: 503},
		{Key: "b", Status: 202},
		{Key: "c", Status: 503},
		{Status: 200},
		{Status: 400},
	}, nil, one(9, time.Second))
	got := [5]int{v.Sent, v.Distinct, v.Repeated, v.Accepted, v.Doubled}
	if want := [5]int{7, 5, 2, 3, 1}; got != want {
		t.Errorf("got sent, distinct, repeated, accepted, doubled %v, want %v", got, want)
	}
}

func TestUtilisation(t *testing.T) {
	t.Parallel()
	lowered := provider.Contract{Window: time.Second, Caps: []provider.CapFrom{{Cap: 10}, {From: time.Second, Cap: 2}}}
	for _, c := range []struct {
		name     string
		arrivals []provider.Arrival
		contract provider.Contract
		want     float64
	}{
		{"one call", at(5), one(10, time.Second), 0},
		{"all", at(0, 100*ms, 200*ms), one(10, time.Second), 1},
		{"half", at(0, 200*ms), one(10, time.Second), 0.5},
		{"a minute's window", at(0, time.Second, 2*time.Second), one(60, time.Minute), 1},
		{"over a change", at(0, 1, 2, 3*time.Second), lowered, 3.0 / 14},
		{"paused", at(0, time.Second), one(0, time.Second), 0},
	} {
		if v := provider.Judge(c.arrivals, nil, c.contract); math.Abs(v.Utilisation-c.want) > 1e-9 {
			t.Errorf("%s: got %v, want %v", c.name, v.Utilisation, c.want)
		}
	}
}

func TestUnjudgedShare(t *testing.T) {
	t.Parallel()
	arrivals := at(0, 10*time.Second)
	for _, c := range []struct {
		name   string
		stalls []provider.Stall
		want   float64
	}{
		{"none", nil, 0},
		{"one", []provider.Stall{{From: 5 * time.Second, To: 6 * time.Second}}, 0.2},
		{"two whose windows overlap", []provider.Stall{{From: 5500 * ms, To: 6 * time.Second}, {From: 5 * time.Second, To: 5100 * ms}}, 0.2},
		{"at the edges", []provider.Stall{{From: -9 * time.Second, To: time.Second}, {From: 10 * time.Second, To: 20 * time.Second}}, 0.2},
		{"all of it", []provider.Stall{{From: -time.Second, To: 11 * time.Second}}, 1},
	} {
		if v := provider.Judge(arrivals, c.stalls, one(1, time.Second)); math.Abs(v.Unjudged-c.want) > 1e-9 {
			t.Errorf("%s: got %v, want %v", c.name, v.Unjudged, c.want)
		}
	}
	if v := provider.Judge(at(0), []provider.Stall{{From: 0, To: 1}}, one(1, time.Second)); v.Unjudged != 1 {
		t.Errorf("a single call in a stall: got %v, want 1", v.Unjudged)
	}
}

// The judge finds the same as a check of every single window.
func TestJudgeAgreesWithACheckOfEveryWindow(t *testing.T) {
	t.Parallel()
	// Settle is fixed, so that time runs in steps of a tenth of it here, and a
	// window that begins a nanosecond off a step is looked at as well.
	const step = provider.Settle / 10
	rapid.Check(t, func(t *rapid.T) {
		moment := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(0, 60).Draw(t, "step")) * step
		})
		contract := provider.Contract{
			Window: time.Duration(rapid.IntRange(1, 25).Draw(t, "window")) * step,
			Caps:   []provider.CapFrom{{Cap: rapid.IntRange(0, 5).Draw(t, "cap")}},
		}
		var from time.Duration
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			from += time.Duration(rapid.IntRange(0, 25).Draw(t, "pause")) * step
			contract.Caps = append(contract.Caps, provider.CapFrom{From: from, Cap: rapid.IntRange(0, 5).Draw(t, "cap")})
		}
		arrivals := at(rapid.SliceOfN(moment, 0, 25).Draw(t, "arrivals")...)
		var stalls []provider.Stall
		for range rapid.IntRange(0, 2).Draw(t, "stalls") {
			begin := moment.Draw(t, "stall")
			stalls = append(stalls, provider.Stall{From: begin, To: begin + 1 + moment.Draw(t, "length")/8})
		}

		v := provider.Judge(arrivals, stalls, contract)
		most, broken := everywhere(arrivals, stalls, contract, step)
		if v.MaxInWindow != most || v.Kept() == broken {
			t.Fatalf("got most %d, kept %v; want %d, %v", v.MaxInWindow, v.Kept(), most, !broken)
		}
		if v.Excess > 0 && len(stalls) == 0 && v.Kept() {
			t.Fatalf("got an excess of %d, though no window is over", v.Excess)
		}
		for _, o := range v.Over {
			count, allowed, judged := window(o.At, arrivals, stalls, contract)
			if !judged || count != o.Count || allowed != o.Allowed || count <= allowed {
				t.Fatalf("listed as over: %+v; got %d of %d, judged %v", o, count, allowed, judged)
			}
		}
	})
}

func everywhere(arrivals []provider.Arrival, stalls []provider.Stall, c provider.Contract, step time.Duration) (most int, broken bool) {
	for base := -40 * step; base <= 90*step; base += step {
		for off := time.Duration(-1); off <= 1; off++ {
			count, allowed, judged := window(base+off, arrivals, stalls, c)
			if judged {
				most = max(most, count)
				broken = broken || count > allowed
			}
		}
	}
	return most, broken
}

// window looks at one window, by the contract's words.
func window(t time.Duration, arrivals []provider.Arrival, stalls []provider.Stall, c provider.Contract) (count, allowed int, judged bool) {
	end := t + c.Window
	for _, a := range arrivals {
		if t <= a.At && a.At < end {
			count++
		}
	}
	allowed = c.Caps[0].Cap
	inForce := []int{allowed} // all caps that this window may go by
	for _, change := range c.Caps[1:] {
		switch {
		case t >= change.From+provider.Settle:
			inForce = []int{change.Cap}
		case end > change.From:
			inForce = append(inForce, change.Cap)
		}
	}
	for i, most := range inForce {
		if i == 0 || most > allowed {
			allowed = most
		}
	}
	for _, s := range stalls {
		if t < s.To && s.From < end {
			return count, allowed, false
		}
	}
	return count, allowed, true
}
