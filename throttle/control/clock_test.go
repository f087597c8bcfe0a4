package control_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"dispatcher/internal/redisclient"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// An override lasts as long as it says, also where the settings before it are of a time when Redis's clock was ahead.
func TestAnOverrideLastsAsLongAsItSaysAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	server := miniredis.RunT(t)
	rdb := redisclient.New(redisclient.Options{Addrs: []string{server.Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	c, err := control.NewControl(rdb, "ns", "provider")
	if err != nil {
		t.Fatal(err)
	}
	ahead := limit.Spec{Terms: limit.Terms{Contract: limit.Contract{Cap: 300, Window: time.Second, Burst: 1, Guard: 10 * time.Millisecond, Lateness: 3 * time.Millisecond, Spread: 7 * time.Millisecond, Horizon: 200 * time.Millisecond}, Algorithm: limit.TokenBucket}}.Settings()
	ahead.Changed = now.Add(2 * time.Hour)
	server.SetTime(now)
	if err := rdb.HSet(t.Context(), c.Keys.Limit, "settings", ahead.Pack()).Err(); err != nil {
		t.Fatal(err)
	}
	override, err := c.Set(t.Context(), capFor(200, 15*time.Minute))
	if err != nil || !override.RevertAt.Equal(now.Add(15*time.Minute)) {
		t.Fatalf("got the end %v, %v, want %v", override.RevertAt, err, now.Add(15*time.Minute))
	}
	if after := override.Reverted(); after.Cap != 300 || !after.Newer(override) || !override.Newer(ahead) {
		t.Errorf("got a cap of %d, and changes of %v, %v and %v; want 300, and each newer than the one before", after.Cap, ahead.Changed, override.Changed, after.Changed)
	}
}
