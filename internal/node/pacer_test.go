package node

import (
	"strconv"
	"testing"
	"time"

	"dispatcher/sender"
	"dispatcher/throttle/limit"
)

// Jobs that are asked for and get no slot go back. They go next, in their order, and each
// is called once.
func TestJobsWithoutASlotGoBackInOrder(t *testing.T) {
	t.Parallel()
	const jobs = 1000
	s := setup{workers: 256, horizon: limit.MinHorizon, attempts: 3, failures: 20}
	s.answer = func(string, int) sender.Result { return accepted }
	inBubble(t, s, func(b *bubble) {
		b.writeMany(jobs)
		b.until(time.Minute, "all are settled", func() bool { return b.settled() == jobs })
		last := time.Time{}
		for i := range jobs {
			at := b.called(strconv.Itoa(i))
			if len(at) != 1 || at[0].Before(last) {
				t.Fatalf("got job %d called at %v after one at %v, want one call a job, in order", i, at, last)
			}
			last = at[0]
		}
		if b.putBack.Load() == 0 {
			t.Error("each job got a slot at once, which proves nothing")
		}
	})
}

// A job whose slot is over before there is a place among the unwritten calls gets another
// one.
func TestAJobThatMissesItsSlotGetsAnother(t *testing.T) {
	t.Parallel()
	atRate(t, 100, func(b *bubble) {
		const jobs = 3
		b.writeMany(jobs)
		for range cap(b.places) {
			b.places <- struct{}{}
		}
		b.answer = func(string, int) sender.Result { return accepted }
		b.dispatch(b, alwaysReady{}, 4)
		time.Sleep(10 * time.Second)
		if n := len(b.called("0")); n != 0 {
			t.Errorf("got %d calls without a place, want none", n)
		}
		for range cap(b.places) {
			<-b.places
		}
		b.until(time.Second, "all jobs are settled", func() bool { return b.settled() == jobs })
		for i := range jobs {
			if n := len(b.called(strconv.Itoa(i))); n != 1 {
				t.Errorf("got %d calls of job %d, want one", n, i)
			}
		}
	})
}
