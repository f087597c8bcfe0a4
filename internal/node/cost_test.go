package node

import (
	"strconv"
	"testing"
	"time"

	"dispatcher/internal/gathered"
	"dispatcher/internal/node/worker"
	"dispatcher/job"
	"dispatcher/sender"
)

// costing is a job that counts so many units.
func costing(id string, units int) job.Record {
	return job.Record{Value: []byte(`{"id":"` + id + `"}`), Headers: []job.Header{{Key: job.HeaderCost, Value: []byte(strconv.Itoa(units))}}}
}

// calledUnits is what the calls of the node that runs now counted.
func (b *bubble) calledUnits() float64 {
	b.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.Fatal(err)
	}
	return gathered.Families(families).Sum(worker.CalledUnits)
}

// Jobs use the rate by what they count, in order, and each once.
func TestJobsUseTheRateByTheirCost(t *testing.T) {
	t.Parallel()
	const jobs = 60
	s := setup{rate: 105, maxCost: 5, workers: 64, attempts: 3, failures: 20} // 101 units in 1.01 s
	s.answer = func(string, int) sender.Result { return accepted }
	inBubble(t, s, func(b *bubble) {
		var all []job.Record
		for i := range jobs {
			all = append(all, costing(strconv.Itoa(i), 1+i%s.maxCost))
		}
		b.write(all...)
		b.until(time.Minute, "all are settled", func() bool { return b.settled() == jobs })
		for i := range jobs - 1 {
			this, next := b.called(strconv.Itoa(i)), b.called(strconv.Itoa(i+1))
			if len(this) != 1 || len(next) != 1 {
				t.Fatalf("got %d and %d calls of jobs %d and %d, want one each", len(this), len(next), i, i+1)
			}
			if gap, want := next[0].Sub(this[0]), time.Duration(1+i%s.maxCost)*10*time.Millisecond; gap < want {
				t.Errorf("got job %d %v behind one of %d units, want at least %v", i+1, gap, 1+i%s.maxCost, want)
			}
		}
		if got, want := b.calledUnits(), float64(jobs/s.maxCost*(1+2+3+4+5)); got != want {
			t.Errorf("got %v units that calls counted, want %v", got, want)
		}
		first, last := b.called("0")[0], b.called(strconv.Itoa(jobs - 1))[0]
		if took, most := last.Sub(first), jobs*30*time.Millisecond+100*time.Millisecond; took > most {
			t.Errorf("it took %v, want at most %v: the rate is wasted", took, most)
		}
	})
}

// A job that counts more than the limit's largest one is a dead letter, and holds up nobody.
func TestAJobAboveTheLargestCostIsADeadLetter(t *testing.T) {
	t.Parallel()
	s := setup{rate: 100, maxCost: 5, workers: 16, attempts: 3, failures: 20}
	s.answer = func(string, int) sender.Result { return accepted }
	inBubble(t, s, func(b *bubble) {
		b.write(costing("a", 1), costing("b", 6), costing("c", 5))
		b.until(time.Minute, "all are settled", func() bool { return b.settled() == 3 })
		if len(b.called("a")) != 1 || len(b.called("b")) != 0 || len(b.called("c")) != 1 || b.dead() != 1 {
			t.Errorf("got %d, %d and %d calls and %d dead letters, want 1, 0, 1 and 1", len(b.called("a")), len(b.called("b")), len(b.called("c")), b.dead())
		}
	})
}
