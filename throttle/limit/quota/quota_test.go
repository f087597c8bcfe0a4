package quota

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The windows of a calendar lie side by side, and the one of now holds it, also where clocks
// are changed at midnight.
func TestBoundsOfACalendar(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := Quota{
			Calendar: rapid.SampledFrom([]string{"minute", "hour", "day", "month"}).Draw(t, "calendar"),
			Zone:     rapid.SampledFrom([]string{"", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kolkata", "America/Havana", "Africa/Cairo"}).Draw(t, "zone"),
		}
		now := time.UnixMicro(rapid.Int64Range(1_000_000_000_000_000, 2_000_000_000_000_000).Draw(t, "now"))
		b := q.Bounds(now)
		if len(b) != 4 || now.Before(b[1]) || !now.Before(b[2]) {
			t.Fatalf("%+v: got %v around %v", q, b, now)
		}
		for i := 1; i < len(b); i++ {
			if length := b[i].Sub(b[i-1]); length <= 0 || length > Calendars[q.Calendar]+time.Hour {
				t.Fatalf("%+v: got %v, a window of %v", q, b, length)
			}
		}
		if next := q.Bounds(b[2]); !next[1].Equal(b[2]) || !next[0].Equal(b[1]) {
			t.Fatalf("%+v: got %v, and then %v", q, b, next)
		}
	})
}

func TestBoundsOfAMonth(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	b := Quota{Calendar: "month", Zone: "Europe/Berlin"}.Bounds(time.Date(2026, 3, 31, 23, 59, 59, 0, berlin))
	if want := time.Date(2026, 3, 1, 0, 0, 0, 0, berlin); !b[1].Equal(want) {
		t.Errorf("got March from %v, want %v", b[1], want)
	}
	if want := time.Date(2026, 4, 1, 0, 0, 0, 0, berlin); !b[2].Equal(want) || b[2].Sub(b[1]) != 31*24*time.Hour-time.Hour {
		t.Errorf("got March until %v, want %v", b[2], want)
	}
}

func TestQuotasThatAreRefused(t *testing.T) {
	t.Parallel()
	for want, q := range map[string]Quota{
		`calendar: "week": must be`:                       {Calendar: "week"},
		"rolling: 24h0m0s: must be 0 with a calendar":     {Calendar: "day", Rolling: 24 * time.Hour},
		`zone: "Europe/Berlin": is for a calendar only`:   {Rolling: 24 * time.Hour, Zone: "Europe/Berlin"},
		`zone: "Mars": is no time zone`:                   {Calendar: "day", Zone: "Mars"},
		"rolling: 500ms: must be from 1s":                 {Rolling: 500 * time.Millisecond},
		`on_lost: "stop": must be`:                        {Calendar: "day", OnLost: "stop"},
		`on_lost: "wait": is for a quota: state calendar`: {OnLost: "wait"},
	} {
		if err := q.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %s", q, err, want)
		}
	}
	for _, q := range []Quota{{}, {Calendar: "month", Zone: "Asia/Tokyo", OnLost: LostOpen}, {Rolling: MaxWindow}} {
		if err := q.Validate(); err != nil {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func TestUsedOfAQuota(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 12, 0, 30, 0, time.UTC)
	day := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC).UnixMicro()
	state := sprint(day-86_400_000_000, 70, 1) + sprint(day, 50, 3) + "nonsense"
	if got := (Quota{Calendar: "day"}).Used(state, now); got != 47 {
		t.Errorf("got %d units of the day, want 47", got)
	}
	hour := Quota{Rolling: time.Hour}
	part := (time.Hour.Microseconds() + Parts - 1) / Parts
	last := now.UnixMicro() / part
	if got := hour.Used(sprint(last-66, 9, 0)+sprint(last-30, 20, 4)+sprint(last, 5, 0), now); got != 21 {
		t.Errorf("got %d units of the hour, want 21", got)
	}
}

func sprint(window, granted, returned int64) string {
	return fmt.Sprintf("%d:%d:%d ", window, granted, returned)
}

// A node remembers of each window the most that it was shown. A state that Redis went back to
// takes nothing away, and windows that are over are forgotten.
func TestANodeRemembersTheMostOfAQuota(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		remembered, shown, want string
	}{
		{"", "1:5:0", "1:5:0"},
		{"1:5:0", "1:7:2", "1:7:2"},
		{"1:5:0", "2:1:0", "2:1:0"},
		{"1:5:0 2:3:1", "1:5:0 2:3:1", "1:5:0 2:3:1"},
		{"1:7:2", "1:5:0", "1:7:2"},
		{"1:5:0 2:3:0", "1:5:0", "1:5:0 2:3:0"},
		{"1:5:0 2:3:0 3:1:0", "1:5:0 2:2:0", "1:5:0 2:3:0 3:1:0"},
		{"1:5:0", "", "1:5:0"},
		{"nonsense 1:5", "1:2:0", "1:2:0"},
	} {
		if got := (Quota{Calendar: "day"}).Remember(row.remembered, row.shown, time.UnixMicro(0)); got != row.want {
			t.Errorf("%q, shown %q: got %q, want %q", row.remembered, row.shown, got, row.want)
		}
	}
}

// Parts that lie ahead of all slots were counted before the clock was set back. Redis has moved them.
func TestANodeForgetsPartsThatLieAhead(t *testing.T) {
	t.Parallel()
	q := Quota{Rolling: Parts * time.Second}
	if got := q.Remember("1:5:0 2:3:0 9:7:0", "1:5:0", time.Unix(3, 0)); got != "1:5:0 2:3:0" {
		t.Errorf("got %q, want the parts up to 3", got)
	}
}
