package status_test

import (
	"math"
	"testing"

	"dispatcher/consumer/internal/status"
)

func TestTimeToDrain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s    status.Lane
		want float64
	}{
		{status.Lane{Waiting: 600, InFlight: 0, Rate: 200}, 3},
		{status.Lane{Waiting: 590, InFlight: 10, Rate: 200}, 3},
		{status.Lane{Rate: 200}, 0},
		{status.Lane{}, 0},
		{status.Lane{Waiting: 1}, math.Inf(1)},
	} {
		if got := c.s.Drain(); got != c.want {
			t.Errorf("got %v s for %+v, want %v", got, c.s, c.want)
		}
	}
}
