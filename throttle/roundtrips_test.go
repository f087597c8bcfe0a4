package throttle

import (
	"log/slog"
	"testing"
	"time"

	"dispatcher/throttle/lateness"
)

const ms = time.Millisecond

// A spread is compared with what round trips vary by, once there are enough of them.
func TestASpreadIsComparedWithTheRoundTrips(t *testing.T) {
	t.Parallel()
	trips := func(minutes int, low, high, usual time.Duration) lateness.RoundTrips {
		return lateness.RoundTrips{Connections: 10, Minutes: minutes, Low: low, High: high, Usual: usual}
	}
	for _, c := range []struct {
		trips       lateness.RoundTrips
		spread      time.Duration
		want        lateness.SpreadFit
		recommended time.Duration
	}{
		{lateness.RoundTrips{Connections: 9, Minutes: 3, High: 50 * ms, Usual: 50 * ms}, 7 * ms, lateness.SpreadUnknown, 0},
		{trips(2, 0, 50*ms, 50*ms), 7 * ms, lateness.SpreadUnknown, 0},
		{trips(6, 40*ms, 40*ms, 40*ms), 7 * ms, lateness.SpreadTooLarge, 2 * ms},
		{trips(5, 40*ms, 40*ms, 40*ms), 7 * ms, lateness.SpreadFits, 2 * ms},
		{trips(6, ms, 1400*time.Microsecond, ms), 4 * ms, lateness.SpreadTooLarge, 2 * ms},
		{trips(6, ms, 1400*time.Microsecond, ms), 4*ms - 1, lateness.SpreadFits, 2 * ms},
		{trips(6, ms, 21*ms, ms), 7 * ms, lateness.SpreadFits, 30 * ms}, // a node far away, which connected once
		{trips(3, ms, 4*ms, 4*ms), 7 * ms, lateness.SpreadFits, 5 * ms},
		{trips(3, ms, 8*ms, 8*ms), 7 * ms, lateness.SpreadFits, 11 * ms},
		{trips(3, ms, 8*ms+1, 8*ms+1), 7 * ms, lateness.SpreadTooSmall, 11 * ms},
	} {
		if got, recommended := c.trips.Fit(c.spread); got != c.want || recommended != c.recommended {
			t.Errorf("%+v, spread %v: got %s, %v, want %s, %v", c.trips, c.spread, got, recommended, c.want, c.recommended)
		}
	}
}

// Round trips of all nodes are joined by minute. The usual highest leaves the worst minute out, and
// a lateness that rises does not forget them.
func TestRoundTripsAreJoinedByMinute(t *testing.T) {
	t.Parallel()
	w := newLatenessTest(t, autoContract(time.Second))
	report := func(n int64, low, high time.Duration) lateness.Reply {
		return w.report(lateness.Report{Trips: lateness.Trips{N: n, Low: low, High: high}})
	}
	want := func(want lateness.RoundTrips) {
		t.Helper()
		w.pass(time.Second)
		got, err := w.control.RoundTrips(t.Context(), w.now)
		if err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		if reply := w.report(lateness.Report{}); !reply.Chooses || reply.Trips != want {
			t.Errorf("a node that is to choose got %+v, want %+v", reply.Trips, want)
		}
	}
	w.pass(time.Minute - w.now.Sub(w.now.Truncate(time.Minute)))
	want(lateness.RoundTrips{})
	report(2, 3*ms, 5*ms)
	report(3, 2*ms, 4*ms)
	want(lateness.RoundTrips{Connections: 5, Minutes: 1, Low: 2 * ms, High: 5 * ms, Usual: 5 * ms})
	w.pass(time.Minute)
	report(1, 90*ms, 90*ms) // one host stood still
	want(lateness.RoundTrips{Connections: 6, Minutes: 2, Low: 2 * ms, High: 90 * ms, Usual: 5 * ms})
	w.report(lateness.Report{Moved: lateness.MovedUp, Patience: lateness.LeastPatience})
	w.pass(time.Minute)
	report(1, ms, 6*ms)
	want(lateness.RoundTrips{Connections: 7, Minutes: 3, Low: ms, High: 90 * ms, Usual: 6 * ms})
	w.pass(9 * time.Minute) // the first minute is over, and its field is taken by another
	report(4, 2*ms, 2*ms)
	want(lateness.RoundTrips{Connections: 6, Minutes: 3, Low: ms, High: 90 * ms, Usual: 6 * ms})
	w.pass(11 * time.Minute)
	want(lateness.RoundTrips{})
}

// What no node can have measured, and a hash that holds rubbish, count as nothing.
func TestAbsurdRoundTripsCountAsNone(t *testing.T) {
	t.Parallel()
	w := newLatenessTest(t, autoContract(time.Second))
	for _, trips := range []string{"1 5000 4000", "0 1 2", "1 2", "-1 2 3", "a b c", "1 2 3 4"} {
		if err := w.scripts.Counting.Run(t.Context(), w.rdb, []string{w.scripts.Keys.Limit, w.scripts.Keys.History, w.scripts.Keys.Lateness}, "0 0 0 0 0 0 0 0", "", 0, trips).Err(); err != nil {
			t.Errorf("%q: %v", trips, err)
		}
	}
	minute := slog.Int64Value(w.now.Unix() / 60).String()
	w.redis.HSet("dispatcher:{late}:lateness:provider", "m0", "rubbish", "m1", minute+" 1 2", "m2", minute+" -1 2 3", "m3", "9"+minute+" 1 2 3", "more", minute+" x y z")
	if got, err := w.control.RoundTrips(t.Context(), w.now); err != nil || got != (lateness.RoundTrips{}) {
		t.Errorf("got %+v, %v, want none", got, err)
	}
}

// Round trips whose report failed are reported with the next one.
func TestRoundTripsOfAFailedReportAreKept(t *testing.T) {
	t.Parallel()
	var n lateness.TripNotes
	n.Join(lateness.Trips{N: 1, Low: 3 * ms, High: 3 * ms})
	n.Join(lateness.Trips{N: 1, Low: 5 * ms, High: 5 * ms})
	failed := n.Take()
	n.Join(lateness.Trips{N: 1, Low: ms, High: ms})
	n.Join(failed)
	n.Join(lateness.Trips{})
	if got, want := n.Take(), (lateness.Trips{N: 3, Low: ms, High: 5 * ms}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := n.Take(); got != (lateness.Trips{}) {
		t.Errorf("got %+v twice", got)
	}
}
