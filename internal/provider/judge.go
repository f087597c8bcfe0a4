package provider

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// Settle is for how long after a change of the cap a window may still hold as many
// calls as the larger of the two caps allows.
const Settle = 500 * time.Millisecond

// maxOver is the most broken windows that a verdict lists.
const maxOver = 10

// CapFrom is a cap and since when it holds, on the clock of the arrivals.
type CapFrom struct {
	From time.Duration
	Cap  int
}

// Contract is the rule for the calls: at most Cap units in any window. Caps are in order of
// time; the first one holds from the beginning, whatever its From.
type Contract struct {
	Window time.Duration
	Caps   []CapFrom
	// Part is a part of the calls' keys, counted from 1; dashes separate them. Each value of it
	// has the caps for itself. 0: all calls count together.
	Part  int
	Calls bool // each call counts one, whatever its units
}

// units is what a call counts.
func (c Contract) units(a Arrival) int {
	if c.Calls {
		return 1
	}
	return a.Units()
}

// value is what a call counts with.
func (c Contract) value(a Arrival) string {
	parts := strings.SplitN(a.Key, "-", c.Part+1)
	if c.Part < 1 || len(parts) < c.Part {
		return ""
	}
	return parts[c.Part-1]
}

// Over is one broken window: [At, At+Window).
type Over struct {
	At      time.Duration `json:"at_ns"`
	Count   int           `json:"count"`
	Allowed int           `json:"allowed"`
}

// Verdict is the result of [Judge].
type Verdict struct {
	Sent     int `json:"sent"`     // arrivals
	Units    int `json:"units"`    // what they count together: see [Arrival.Units]
	Distinct int `json:"distinct"` // different keys among them; a call without a key is different from all
	Repeated int `json:"repeated"` // Sent - Distinct
	Accepted int `json:"accepted"` // different keys that got a 2xx at least once
	Doubled  int `json:"doubled"`  // 2xx beyond the first of their key

	First time.Duration `json:"first_ns"`
	Last  time.Duration `json:"last_ns"`
	// Utilisation is the units after the first call, divided by Last-First, as a share of
	// cap/window.
	Utilisation float64 `json:"utilisation"`

	MaxInWindow int     `json:"max_in_window"` // units, in any judged window
	Unjudged    float64 `json:"unjudged"`      // share of the windows that begin in [First, Last]
	OverCount   int     `json:"over_count"`    // broken windows that differ in what they hold
	Over        []Over  `json:"over,omitempty"`
	// Excess is the units beyond what all windows from the first call to the last may hold
	// together. It needs no single window, so stalls can't hide it.
	Excess int `json:"excess"`
}

// Kept reports whether no judged window was over its cap.
func (v Verdict) Kept() bool { return v.OverCount == 0 }

// Judge checks every window [t, t+Window), wherever it begins. A window that overlaps a
// stall is unjudged. The arguments need no order and aren't changed.
func Judge(arrivals []Arrival, stalls []Stall, c Contract) Verdict {
	v := census(arrivals)
	if v.Sent == 0 || c.Window <= 0 || len(c.Caps) == 0 {
		return v
	}
	all := make(map[string][]time.Duration) // of each unit, by what it counts with
	first, last := arrivals[0], arrivals[0]
	for _, a := range arrivals {
		value := c.value(a)
		all[value] = append(all[value], slices.Repeat([]time.Duration{a.At}, c.units(a))...)
		if a.At < first.At {
			first = a
		}
		if a.At > last.At {
			last = a
		}
	}
	v.First, v.Last = first.At, last.At
	stalls = merged(stalls)
	v.Utilisation = c.share(v, v.Units-first.Units())
	v.Unjudged = unjudged(stalls, c.Window, v.First, v.Last)
	for _, at := range all {
		slices.Sort(at)
		c.slide(&v, at, stalls)
		v.Excess += max(0, len(at)-c.most(at[0], at[len(at)-1], stalls))
	}
	return v
}

// most is how many units the largest cap allows in the windows from the first call to the
// last. A stall may have delayed the first of them by its length.
func (c Contract) most(first, last time.Duration, stalls []Stall) int {
	most, span := 0, last-first
	for _, in := range c.Caps {
		most = max(most, in.Cap)
	}
	for _, s := range stalls {
		if s.To >= first && s.From <= last {
			span += s.To - s.From
		}
	}
	windows := int(span/c.Window) + 1
	if most > math.MaxInt/windows {
		return math.MaxInt
	}
	return most * windows
}

// Needless reports whether so few units came that no window can be over, so that none needs
// to be judged.
func (c Contract) Needless(v Verdict) bool {
	for _, in := range c.Caps {
		if v.Units > in.Cap {
			return false
		}
	}
	return true
}

// slide moves the window over the times at which it can be worst. A window's count
// drops only when an arrival leaves at its beginning. So a window can be moved later,
// until its first arrival is at its beginning, without a lower count. On the way it may
// come to a new cap, which may allow more, or to a stall, which leaves it unjudged. So
// the last window before each of these is checked as well.
func (c Contract) slide(v *Verdict, at []time.Duration, stalls []Stall) {
	lo, hi, stall := 0, 0, 0
	for _, t := range c.starts(at, stalls) {
		for lo < len(at) && at[lo] < t {
			lo++
		}
		for hi < len(at) && at[hi] < t+c.Window {
			hi++
		}
		for stall < len(stalls) && stalls[stall].To <= t {
			stall++
		}
		if stall < len(stalls) && stalls[stall].From < t+c.Window {
			continue
		}
		count, allowed := hi-lo, c.allowed(t)
		v.MaxInWindow = max(v.MaxInWindow, count)
		if count <= allowed {
			continue
		}
		v.OverCount++
		if len(v.Over) < maxOver {
			v.Over = append(v.Over, Over{At: t, Count: count, Allowed: allowed})
		}
	}
}

// starts lists, in order, the beginnings of the windows to check.
func (c Contract) starts(at []time.Duration, stalls []Stall) []time.Duration {
	starts := slices.Clone(at)
	for _, change := range c.Caps[1:] {
		starts = append(starts, change.From-c.Window)
	}
	for _, s := range stalls {
		starts = append(starts, s.From-c.Window)
	}
	slices.Sort(starts)
	return slices.Compact(starts)
}

// allowed is the largest cap that holds at any instant from Settle before t to
// the window's end.
func (c Contract) allowed(t time.Duration) int {
	most := 0
	for i, in := range c.Caps {
		begun := i == 0 || in.From < t+c.Window
		ended := i+1 < len(c.Caps) && c.Caps[i+1].From <= t-Settle
		if begun && !ended {
			most = max(most, in.Cap)
		}
	}
	return most
}

// share is the units after the first call, divided by the number that the caps allowed from
// the first call to the last.
func (c Contract) share(v Verdict, after int) float64 {
	var could float64
	for i, in := range c.Caps {
		from, to := v.First, v.Last
		if i > 0 {
			from = max(from, in.From)
		}
		if i+1 < len(c.Caps) {
			to = min(to, c.Caps[i+1].From)
		}
		could += max(0, (to-from).Seconds()) * float64(in.Cap) / c.Window.Seconds()
	}
	if could == 0 {
		return 0
	}
	return float64(after) / could
}

// census counts keys.
func census(arrivals []Arrival) Verdict {
	v := Verdict{Sent: len(arrivals)}
	accepts := make(map[string]int, len(arrivals))
	for _, a := range arrivals {
		v.Units += a.Units()
		ok := 0
		if a.Status >= 200 && a.Status < 300 {
			ok = 1
		}
		if a.Key == "" {
			v.Distinct++
			v.Accepted += ok
			continue
		}
		accepts[a.Key] += ok
	}
	v.Distinct += len(accepts)
	v.Repeated = v.Sent - v.Distinct
	for _, n := range accepts {
		v.Accepted += min(n, 1)
		v.Doubled += max(n-1, 0)
	}
	return v
}

// merged sorts stalls and joins those that touch.
func merged(stalls []Stall) []Stall {
	stalls = slices.Clone(stalls)
	slices.SortFunc(stalls, func(a, b Stall) int { return cmp.Compare(a.From, b.From) })
	var out []Stall
	for _, s := range stalls {
		if n := len(out); n > 0 && s.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, s.To)
			continue
		}
		out = append(out, s)
	}
	return out
}

// unjudged is the share of [first, last] in which a window begins that overlaps a
// stall.
func unjudged(stalls []Stall, window, first, last time.Duration) float64 {
	var sum time.Duration
	done := first // counted up to here
	for _, s := range stalls {
		from, to := max(s.From-window, done), min(s.To, last)
		if to > from {
			sum += to - from
			done = to
		}
	}
	if last > first {
		return float64(sum) / float64(last-first)
	}
	for _, s := range stalls {
		if s.From < first+window && s.To > first {
			return 1
		}
	}
	return 0
}
