package limitcmd

import (
	"fmt"
	"strings"
	"testing"

	"dispatcher/internal/redisclient"
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
