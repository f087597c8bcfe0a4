package schedule

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Without min shares, a lane gets nothing while one before it has a job.
func TestTheFirstLaneWithAJobGoesFirst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var lanes []*Lane
		for i := range rapid.IntRange(2, 5).Draw(t, "lanes") {
			lanes = append(lanes, &Lane{name: fmt.Sprint(i), limit: 1000})
		}
		w := newBench(lanes...)
		a := w.NewAssignment()
		var parts []*Partition
		for i, l := range lanes {
			parts = append(parts, partition(a, l, i))
		}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "add") {
				addJobs(rapid.SampledFrom(parts).Draw(t, "to"), 0)
				continue
			}
			var best *Lane
			for _, l := range lanes {
				if l.ready.jobs > 0 {
					best = l
					break
				}
			}
			if d := w.Take(); d == nil && best != nil || d != nil && d.part.src.Lane != best {
				t.Fatalf("got job %v, want one of lane %v", d, best)
			}
		}
	})
}

// Hand-outs that are taken back leave no trace: what is handed out afterwards is as if they
// had not been made, whatever the lanes and their min shares.
func TestAHandOutThatIsTakenBackNeverWas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var lanes, other []*Lane
		for i := range rapid.IntRange(1, 5).Draw(t, "lanes") {
			share := rapid.Float64Range(0, 0.19).Draw(t, "share")
			lanes = append(lanes, &Lane{name: fmt.Sprint(i), limit: 1000, minShare: share})
			other = append(other, &Lane{name: fmt.Sprint(i), limit: 1000, minShare: share})
		}
		for range rapid.IntRange(1, 100).Draw(t, "hand-outs") {
			for i := range lanes {
				lanes[i].ready.jobs = rapid.IntRange(0, 1).Draw(t, "ready")
				other[i].ready.jobs = lanes[i].ready.jobs
			}
			type handOut struct {
				l *Lane
				b bill
			}
			var back []handOut
			for range rapid.IntRange(0, 8).Draw(t, "taken back") {
				if l, b := pick(lanes); l != nil {
					back = append(back, handOut{l, b})
				}
			}
			for _, h := range slices.Backward(back) {
				h.b.takeBack(lanes, h.l)
			}
			for i := range lanes {
				if math.Abs(lanes[i].credit-other[i].credit) > 1e-9 {
					t.Fatalf("lane %d: got credit %v, want %v", i, lanes[i].credit, other[i].credit)
				}
				lanes[i].credit = other[i].credit // without what was rounded
			}
			got, _ := pick(lanes)
			want, _ := pick(other)
			if (got == nil) != (want == nil) || got != nil && got.name != want.name {
				t.Fatalf("got lane %v, want %v", got, want)
			}
		}
	})
}

// A lane has its min share of the jobs that are used, however many are taken with them and
// put back.
func TestJobsThatArePutBackKeepTheMinShares(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const share = 0.1
		lanes := []*Lane{{name: "first", limit: 1000}, {name: "other", limit: 1000, minShare: share}}
		w := newBench(lanes...)
		a := w.NewAssignment()
		for i, l := range lanes {
			addJobs(partition(a, l, i), make([]byte, 900)...)
		}
		got, all := 0, 0
		for all < 500 {
			var taken []*Delivery
			for range rapid.IntRange(1, 30).Draw(t, "taken") {
				taken = append(taken, w.Take())
			}
			used := rapid.IntRange(0, len(taken)).Draw(t, "used")
			for _, d := range taken[:used] {
				if all++; d.part.src.Lane == lanes[1] {
					got++
				}
				d.Done(Outcome{})
			}
			w.PutBack(taken[used:])
			if want := share * float64(all); float64(got) < want-1 || float64(got) > want+1 {
				t.Fatalf("the other lane got %d of %d, want its share of %v", got, all, want)
			}
		}
	})
}

// In any stretch in which a lane always has a job ready it gets its min share of the
// hand-outs, less a constant that is at most the number of min shares.
func TestALaneGetsItsMinShareInAnyStretch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(2, 5).Draw(t, "lanes")
		var lanes []*Lane
		left := 0.99
		for i := range count {
			share := rapid.Float64Range(0, left).Draw(t, "share")
			left -= share
			lanes = append(lanes, &Lane{name: fmt.Sprint(i), limit: 1 << 20, minShare: share})
		}
		// Hand-outs since a lane was last empty, and those it got.
		since, got := make([]int, count), make([]int, count)
		for range rapid.IntRange(1, 400).Draw(t, "hand-outs") {
			for i, l := range lanes {
				if l.ready.jobs = 1; rapid.IntRange(0, 9).Draw(t, "there") == 0 && i != count-1 {
					l.ready.jobs, since[i], got[i] = 0, 0, 0
				}
			}
			l, _ := pick(lanes)
			for i := range lanes {
				if lanes[i].ready.jobs == 0 {
					continue
				}
				since[i]++
				if lanes[i] == l {
					got[i]++
				}
				if least := lanes[i].minShare*float64(since[i]) - float64(count); float64(got[i]) < least {
					t.Fatalf("lane %d got %d of %d hand-outs, want at least %v", i, got[i], since[i], least)
				}
			}
		}
	})
}

// A lane whose jobs are all in flight blocks no other lane.
func TestAFullLaneBlocksNobody(t *testing.T) {
	t.Parallel()
	high, low := &Lane{name: "high", limit: 2}, &Lane{name: "low", limit: 2, minShare: 0.5}
	w := newBench(high, low)
	a := w.NewAssignment()
	addJobs(partition(a, high, 0), 0, 0, 0, 0, 0)
	addJobs(partition(a, low, 1), 0, 0)
	got := map[string]int{}
	for d := w.Take(); d != nil; d = w.Take() {
		got[d.part.src.Lane.name]++
	}
	if got["high"] != 2 || got["low"] != 2 || w.ReadyJobs() != 0 {
		t.Errorf("got %v and %d waiting, want 2 of each and none", got, w.ReadyJobs())
	}
}
