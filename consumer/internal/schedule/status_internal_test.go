package schedule

import (
	"math"
	"testing"
)

func TestTimeToDrain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s    LaneStatus
		want float64
	}{
		{LaneStatus{Waiting: 600, InFlight: 0, Rate: 200}, 3},
		{LaneStatus{Waiting: 590, InFlight: 10, Rate: 200}, 3},
		{LaneStatus{Rate: 200}, 0},
		{LaneStatus{}, 0},
		{LaneStatus{Waiting: 1}, math.Inf(1)},
	} {
		if got := c.s.Drain(); got != c.want {
			t.Errorf("got %v s for %+v, want %v", got, c.s, c.want)
		}
	}
}
