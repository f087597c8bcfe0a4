package lateness

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"dispatcher/throttle/limit"
)

// A node reports when it has used fifty slots, or some after three seconds; one
// without slots reports nothing.
func TestNodesReportWhatIsWorthACall(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	for _, c := range []struct {
		slots int64
		after time.Duration
		want  bool
	}{
		{0, time.Hour, false},
		{49, 2900 * time.Millisecond, false},
		{1, 3 * time.Second, true},
		{50, 900 * time.Millisecond, false},
		{50, time.Second, true},
	} {
		r := Reporter{said: Counts{7, 1}, saidAt: begin}
		news, got := r.due(Counts{7 + c.slots, 1}, begin.Add(c.after))
		if got != c.want || news != (Counts{c.slots}) {
			t.Errorf("%d slots after %v: got %v, %v, want %v", c.slots, c.after, news, got, c.want)
		}
	}
}

const ms = time.Millisecond

// A slot that a node used in time shows for eight seconds that the fleet works. One that was late does not.
func TestAStandstillIsSeenAfterEightSeconds(t *testing.T) {
	t.Parallel()
	c := limit.Contract{Cap: 10, Window: time.Second, Auto: true, Lateness: 3 * ms, Spread: 7 * ms, Horizon: 200 * ms}
	for ago := range 12 {
		for late, used := range []Counts{{1}, {0, 1}} { // in time with 3 ms, and with 5 ms only
			e := Evidence{Seconds: make([]Counts, keptSeconds)}
			if ago < len(e.Seconds) {
				e.Seconds[ago] = used
			}
			choice, ok := ChooseAtStandstill(c, e, 6*ms)
			if want := ago >= 8 || late == 1; ok != want || ok && choice.Lateness != 8*ms {
				t.Errorf("a slot %d s ago, late: %t: got %v, %t, want %t and 8ms", ago, late == 1, choice.Lateness, ok, want)
			}
		}
	}
}

// A node says once that the spread is too small, with the remedy, and once that it
// is enough.
func TestASpreadThatIsTooSmallIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := Reporter{Limit: "provider", Log: slog.New(slog.NewTextHandler(&log, nil))}
	far, near := RoundTrips{Connections: 20, Minutes: 5, Low: ms, High: 19 * ms, Usual: 19 * ms}, RoundTrips{Connections: 20, Minutes: 5, Low: ms, High: 2 * ms, Usual: 2 * ms}
	for _, trips := range []RoundTrips{near, far, far, {}, far, near, near} {
		r.watchSpread(trips, 7*ms)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], `remedy="limit set provider --spread 27ms"`) ||
		!strings.Contains(lines[1], "level=INFO") {
		t.Errorf("got:\n%s\nwant a warning with its remedy, and one line when it is over", log.String())
	}
}
