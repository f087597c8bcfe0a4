package throttle

import (
	"testing"
	"time"

	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// Where gates choose, more jobs are offered than a block has slots. A node that got its whole block asks for the next one before
// that is over; one that got less, because gates let no more pass, waits a block. Both also where the fleet chose a longer lateness,
// so that blocks are shorter. Where gates spread a whole block over a longer time, others may have the slots between: the node asks as if
// the block lay close.
func TestANodeWithGatesAsksBeforeItsBlockIsOver(t *testing.T) {
	t.Parallel()
	for _, lateness := range []time.Duration{limit.LatenessClasses[0], limit.LatenessClasses[1]} {
		epoch := int64(1)
		r, _ := returning(t, &epoch)
		r.known.Auto, r.known.Lateness = true, lateness
		now := time.Now()
		r.clock = clock.Clock{Origin: now}
		r.observe(clock.Reading{Asked: now, Answered: now, Now: 1_000_000, Epoch: 1})
		wanted, whole := r.blockSize(), r.atLeast(r.block())
		const gap, wide = 3_400, 20_000 // µs between two slots
		for _, row := range []struct {
			given, gap int64
			want       time.Duration
		}{
			{wanted, gap, time.Duration(wanted*gap)*time.Microsecond - r.prefetch(0)},
			{wanted, wide, whole - r.prefetch(0)},
			{wanted / 2, gap, whole},
		} {
			asked, reply := make([]request, 3*wanted), script.Reservation{Now: 1_000_000, Settings: r.known, Choice: &script.Choice{}}
			for i := range asked {
				asked[i] = request{Request: job(wholeQuota, "", 1), answer: &Answer{}}
			}
			reply.Schedule = clock.Schedule{Given: row.given, Units: 1, Period: 1}
			for i := range row.given {
				reply.Choice.Granted = append(reply.Choice.Granted, script.Grant{Job: int(i), At: 1_000_000 + (i+1)*row.gap})
			}
			r.receive(0, asked, script.Ask{Want: wanted, Costs: costsOf(asked)}, reply, now)
			r.lane(0).last = asked[row.given-1].answer.Slot.NotBefore
			if got := r.reservationDue(0).Sub(now); got < row.want-time.Millisecond || got > row.want+time.Millisecond {
				t.Errorf("lateness %v, %d of %d units, %d us apart: got the next reservation after %v, want it after %v", lateness, row.given, wanted, row.gap, got, row.want)
			}
		}
	}
}
