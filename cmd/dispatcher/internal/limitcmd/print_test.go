package limitcmd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dispatcher/internal/limits"
	"dispatcher/internal/redisclient"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// Beside the spread limit get shows how much the way to the provider varies.
func TestLimitGetComparesTheSpread(t *testing.T) {
	t.Parallel()
	addr := seeded(t)
	limit := limitOn(t, addr)
	limit("get", "provider").MustPrint(t, "round trips", "unknown", "no node has reported a new connection")
	rdb := redisclient.New(redisclient.Options{Addrs: []string{addr}})
	t.Cleanup(func() { _ = rdb.Close() })
	now, err := rdb.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	report := func(text string) {
		t.Helper()
		for ago := range 6 {
			field, value := fmt.Sprint("m", ago), fmt.Sprint(now.Unix()/60-int64(ago), " ", text)
			if err := rdb.HSet(t.Context(), "dispatcher:{default}:lateness:provider", field, value).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	report("1 60 500")
	limit("get", "provider").MustPrint(t, "60µs to 500µs", "of 6 connections to the provider in 10 minutes: not enough yet to say whether the spread fits")
	report("5 60 500")
	limit("get", "provider").MustPrint(t, "of 30 connections", "the spread of 7ms is more than needed; with --spread 2ms the usable share is 0.951")
	report("5 60 4000")
	limit("get", "provider").MustPrint(t, "the spread of 7ms fits")
	report("5 60 9000")
	limit("get", "provider").MustPrint(t, "WARNING: the spread of 7ms is too small; --spread 14ms is enough")
	o := limit("get", "provider", "--json")
	o.MustPrint(t, `"round_trips":{"connections":30,"low_s":0.00006,"high_s":0.009,"fit":"too_small","recommended_spread_s":0.014`)
	limit("set", "provider", "--guard", "15ms").MustPrint(t, "stated")
	if o := limit("get", "provider"); strings.Contains(o.Out, "round trips") {
		t.Errorf("got %q, want no round trips beside a guard that is stated", o.Out)
	}
}

// hostile clears a terminal and forges a line of a table.
const hostile, harmless = "ann\x1b[2J\n9\tforged", `ann\x1b[2J\n9\tforged`

// What operators and nodes write into Redis can't act on the terminal of the operator who reads it.
func TestTextOfOthersCanNotActOnTheTerminal(t *testing.T) {
	t.Parallel()
	changed := stated(400, limit.Guardrails{}).Settings()
	changed.Revision, changed.By, changed.Why = 2, hostile, hostile
	changed.Changed, changed.Auto = time.Unix(1_700_000_000, 0), true
	seen := limits.Slowdown{EffectiveCap: 200, Granted: 200, Since: "2023-11-14T22:13:20Z", Why: hostile}
	document := &limits.Document{
		Name: "provider", Changed: "2023-11-14T22:13:20Z", By: hostile, Why: hostile, InFile: true, Settings: changed, Slowdown: &seen,
		Chosen: &limits.Chosen{At: "2023-11-14T22:13:20Z", Why: hostile}, InForce: limits.InForce{Of: 1, Lacking: []string{hostile}},
	}
	for name, c := range map[string]struct {
		print func(*strings.Builder) error
		times int // that the text is printed
	}{
		"a change": {func(b *strings.Builder) error {
			return printHistory(b, "provider", []limits.Line{{Change: &control.Entry{To: changed}}})
		}, 2},
		"an event": {func(b *strings.Builder) error {
			return printHistory(b, "provider", []limits.Line{{Event: control.Event{At: changed.Changed, Text: hostile, By: hostile}}})
		}, 2},
		"limit get": {func(b *strings.Builder) error { return printed{Document: document, first: "provider"}.show(b) }, 5},
	} {
		var out strings.Builder
		if err := c.print(&out); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), harmless); got != c.times || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%s: got %d times %s in %q, want %d times, and no escape character", name, got, harmless, out.String(), c.times)
		}
	}
}
