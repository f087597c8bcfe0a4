package schedule

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// Without min shares, a lane gets nothing while one before it has a job.
func TestTheFirstLaneWithAJobGoesFirst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var lanes []*Lane
		for i := range rapid.IntRange(2, 5).Draw(t, "lanes") {
			lanes = append(lanes, &Lane{name: fmt.Sprint(i), mostJobs: 1000})
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
				if l.ready.Len() > 0 {
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

// Jobs that are put back go next again in their lanes, in their order.
func TestJobsThatArePutBackGoNextAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lanes := []*Lane{NewLane("first", 1000), NewLane("other", 1000)}
		w := newBench(lanes...)
		a := w.NewAssignment()
		for i, l := range lanes {
			addJobs(partition(a, l, i), make([]byte, 200)...)
		}
		next := make([]int64, len(lanes)) // offsets
		for range rapid.IntRange(1, 50).Draw(t, "blocks") {
			lane := rapid.IntRange(0, 1).Draw(t, "lane")
			var taken []*Delivery
			for range rapid.IntRange(1, 10).Draw(t, "taken") {
				if d := w.TakeFrom(lane); d != nil {
					taken = append(taken, d)
				}
			}
			used := rapid.IntRange(0, len(taken)).Draw(t, "used")
			for _, d := range taken[:used] {
				if d.part.src.Lane != lanes[lane] || d.Job.Offset != next[lane] {
					t.Fatalf("got offset %d of lane %s, want %d of lane %s", d.Job.Offset, d.part.src.Lane.name, next[lane], lanes[lane].name)
				}
				next[lane]++
				d.Done(Outcome{})
			}
			w.PutBack(taken[used:])
		}
	})
}

// A lane that gets its first job ready gives a notice, whether or not others have some.
func TestAJobOfAnEmptyLaneGivesANotice(t *testing.T) {
	t.Parallel()
	first, other := NewLane("first", 1), NewLane("other", 10)
	w := newBench(first, other)
	a := w.NewAssignment()
	notices := func() (n int) {
		for len(w.Ready()) > 0 {
			<-w.Ready()
			n++
		}
		return n
	}
	codes := partition(a, first, 0)
	addJobs(partition(a, other, 1), 0, 0)
	if got := notices(); got != 1 || w.ReadyLanes() != 2 {
		t.Errorf("got %d notices and lanes %b, want one and the second lane", got, w.ReadyLanes())
	}
	addJobs(codes, 0, 0)
	if got := notices(); got != 1 || w.ReadyLanes() != 3 {
		t.Errorf("got %d notices and lanes %b, want one and both lanes", got, w.ReadyLanes())
	}
	w.TakeFrom(0).Done(Outcome{})
	if got := notices(); got != 1 || w.ReadyLanes() != 3 {
		t.Errorf("got %d notices and lanes %b once the lane has room again, want one and both lanes", got, w.ReadyLanes())
	}
}

// A lane whose jobs are all in flight blocks no other lane.
func TestAFullLaneBlocksNobody(t *testing.T) {
	t.Parallel()
	high, low := NewLane("high", 2), NewLane("low", 2)
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
