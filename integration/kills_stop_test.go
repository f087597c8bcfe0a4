package integration

import (
	"cmp"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"dispatcher/internal/provider"
)

// stopped is how long a kill was felt.
type stopped struct {
	gap, from   time.Duration // the longest time without any call, and when that began after the kill
	whole       time.Duration // from the kill until the calls came at the whole rate again; 0: they did not
	cost        time.Duration // of the whole rate, until then
	parts, back int           // partitions that the dead node had worked, and those of them worked before the next kill
	first, last time.Duration // from the kill to the first call from one of them, and until all those had one
	successor   time.Duration // from the kill to the first call of the node in its place; 0: none
	sent        int           // jobs that the dead node had on the wire, or that may not have been committed yet
	repeats     int
	oldest      time.Duration // how long before the kill the oldest of the repeated was called
}

// tell prints what each kill did, and the run as a whole. Within is how long
// before a kill a job may have been called that is called again.
func (k *killing) tell(t *testing.T, within time.Duration) {
	t.Helper()
	where := k.partitions(t)
	repeats, sent, over := 0, 0, 0
	least, most, slowest, cost := time.Hour, time.Duration(0), time.Duration(0), time.Duration(0)
	for i, one := range k.kills {
		s := k.stopOf(i, where)
		k.repeatsOf(i, within, &s)
		repeats, sent = repeats+s.repeats, sent+s.sent
		least, most, slowest = min(least, s.gap), max(most, s.gap), max(slowest, s.whole)
		if cost += s.cost; s.whole > 0 {
			over++
		}
		t.Logf("%s, kill %d, of node %d at %s: no call at all for %s, from %s after it on; the whole rate again after %s, which cost %s of it; "+
			"%d of the %d partitions it worked were worked again before the next kill, after %s to %s; node %d made its first call after %s; "+
			"it had sent %d in its last %v, and %d were called again, the oldest from %s before; Redis knew %d jobs as done and %d as claimed",
			k.name, i+1, one.victim.number, round(k.stamp(one.at)-k.report.First), round(s.gap), round(s.from), orNever(s.whole), orNever(s.cost),
			s.back, s.parts, orNever(s.first), orNever(s.last), one.successor.number, orNever(s.successor),
			s.sent, within, s.repeats, round(s.oldest), len(one.done), one.claimed)
	}
	t.Logf("%s: %d jobs, %d kills in %s: %d called, %d repeats, %d could have been; no call at all for %s to %s after a kill, the whole rate again after %s at most; "+
		"%.3f of the cap used, a kill cost %s of it; %d of %d in the fullest judged second, %.3f unjudged",
		k.name, k.size.jobs, len(k.kills), round(k.report.Last-k.report.First), k.report.Distinct, k.report.Repeated, sent, round(least), round(most), round(slowest),
		k.report.Utilisation, round(cost/time.Duration(max(over, 1))), k.report.MaxInWindow, k.cap, k.report.Unjudged)
	if repeats != k.report.Repeated {
		t.Errorf("%d of %d repeats belong to a kill", repeats, k.report.Repeated)
	}
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

// orNever is for what need not have come before the next kill.
func orNever(d time.Duration) string {
	if d == 0 {
		return "(never)"
	}
	return round(d).String()
}

// after are the calls between a kill and the next, in order.
func (k *killing) after(i int) (calls []provider.Arrival) {
	at, end := k.stamp(k.kills[i].at), k.report.Last
	if i+1 < len(k.kills) {
		end = k.stamp(k.kills[i+1].at)
	}
	for _, a := range k.arrivals {
		if a.At > at && a.At <= end {
			calls = append(calls, a)
		}
	}
	slices.SortFunc(calls, func(a, b provider.Arrival) int { return cmp.Compare(a.At, b.At) })
	return calls
}

// stopOf measures at the provider, until the next kill.
func (k *killing) stopOf(i int, where map[string]int) (s stopped) {
	one, at, calls := k.kills[i], k.stamp(k.kills[i].at), k.after(i)
	theirs, back := k.workedBy(one.victim.number, where), map[int]bool{}
	last := at
	for _, a := range calls {
		if gap := a.At - last; gap > s.gap {
			s.gap, s.from = gap, last-at
		}
		last = a.At
		if p := where[a.Key]; theirs[p] && !back[p] && a.Node != one.victim.number {
			if back[p] = true; len(back) == 1 {
				s.first = a.At - at
			}
			s.last = a.At - at
		}
		if a.Node == one.successor.number && s.successor == 0 {
			s.successor = a.At - at
		}
	}
	s.parts, s.back = len(theirs), len(back)
	// A second with nine tenths of the cap, once the stop is over.
	most := 9 * k.cap / 10
	for j := range max(0, len(calls)-most) {
		if calls[j].At >= at+s.from+s.gap && calls[j+most].At-calls[j].At <= time.Second {
			s.whole = calls[j].At - at
			s.cost = s.whole - time.Duration(j)*time.Second/time.Duration(k.cap)
			break
		}
	}
	return s
}

// workedBy are the partitions that a node called jobs of in its last seconds.
func (k *killing) workedBy(node int, where map[string]int) map[int]bool {
	theirs := map[int]bool{}
	for _, key := range lastOf(k.arrivals, node, 5*time.Second) {
		theirs[where[key]] = true
	}
	return theirs
}

func (k *killing) repeatsOf(i int, within time.Duration, s *stopped) {
	at := k.stamp(k.kills[i].at)
	for _, a := range k.arrivals {
		if a.Node == k.kills[i].victim.number && a.At >= at-within {
			s.sent++
		}
	}
	for _, r := range k.repeats() {
		if n, _, ok := k.killOf(r.before.Node); ok && n == i {
			s.repeats++
			s.oldest = max(s.oldest, at-r.before.At)
		}
	}
}

// partitions says in which partition each job is.
func (k *killing) partitions(t *testing.T) map[string]int {
	t.Helper()
	where := map[string]int{}
	for _, m := range k.all(t, k.topic) {
		var v struct{ ID string }
		if err := json.Unmarshal(m.Value, &v); err != nil {
			t.Fatalf("%q: %v", m.Value, err)
		}
		where[v.ID] = m.Partition
	}
	if len(where) != k.size.jobs {
		t.Fatalf("the topic holds %d jobs, want %d", len(where), k.size.jobs)
	}
	return where
}
