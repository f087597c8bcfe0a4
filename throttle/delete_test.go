package throttle

import (
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"dispatcher/throttle/control"
	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// A limit is deleted when nobody uses it, with all its keys. One of that name that
// begins again waits until the calls under the old one have left its window.
func TestALimitIsDeletedWhenNobodyUsesIt(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	rdb := patient(t, mini.Addr())
	now := time.UnixMicro(1_700_000_000_000_000)
	mini.SetTime(now)
	operator, err := control.NewControl(rdb, "ns", "provider")
	if err != nil {
		t.Fatal(err)
	}
	if err := operator.Delete(t.Context()); !errors.Is(err, control.ErrUnknownLimit) {
		t.Errorf("got %v before there is one, want %v", err, control.ErrUnknownLimit)
	}
	old := contractOf(20, time.Minute)
	old.Burst = 14
	known, seq := seeded(old), int64(0)
	ask1 := func(name string, set limit.Settings, want int64, end bool) script.Reservation {
		t.Helper()
		seq++
		b, err := script.NewScripts(rdb, "ns", "provider", name).Reserve(t.Context(), script.Ask{Want: want, Seq: seq, Leaves: end, Identity: string(IdentityNone), Nearest: nearest, Known: set})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	ask1("a", known, 0, false)
	var used *control.InUseError
	if err := operator.Delete(t.Context()); !errors.As(err, &used) || used.Nodes != 1 {
		t.Errorf("got %v while a node is there, want a refusal that counts it", err)
	}
	now = now.Add(3 * time.Minute)
	mini.SetTime(now)
	if b := ask1("a", known, 14, false); b.Schedule.Given != 14 {
		t.Fatalf("got %d units, want the burst of 14", b.Schedule.Given)
	}
	ask1("a", known, 0, true)
	if err := operator.Delete(t.Context()); err != nil {
		t.Fatalf("after the node has signed off: %v", err)
	}
	if keys := mini.Keys(); len(keys) != 1 || keys[0] != operator.Keys.Limit {
		t.Errorf("got the keys %v left, want what tells a limit that begins again to wait", keys)
	}
	if _, err := operator.Get(t.Context()); !errors.Is(err, control.ErrUnknownLimit) {
		t.Errorf("got %v, want %v", err, control.ErrUnknownLimit)
	}
	deleted := now
	lower := seeded(contractOf(20, time.Minute))
	if b := ask1("b", lower, 0, false); clock.Duration(b.NotBefore-deleted.UnixMicro()) < limit.Windowed(old) {
		t.Errorf("the new limit grants %v after the old one's burst, want a window of %v", clock.Duration(b.NotBefore-deleted.UnixMicro()), limit.Windowed(old))
	}
	mini.FastForward(time.Hour)
	if _, err := operator.Get(t.Context()); err != nil {
		t.Errorf("the new limit did not last: %v", err)
	}
}
