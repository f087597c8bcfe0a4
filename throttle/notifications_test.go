package throttle

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"dispatcher/internal/containers"
	"dispatcher/internal/redisclient"
	"dispatcher/throttle/control"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit/parameters"
)

// A node hears of each change from Redis, without asking.
func hearsOfChanges(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	l, err := New(Options{Redis: rdb, Namespace: "notices", Name: "provider", Node: "n", Limit: specOf(contract(300)), Identity: IdentityNone})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.reserve(t.Context(), script.Ask{Seq: 1, Identity: string(IdentityNone), Known: seeded(contract(300))}); err != nil {
		t.Fatal(err) // seeds the limit
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { l.listen(ctx); close(done) }() // nobody asks: only notifications of Redis arrive
	awaitChange(t, l, "the subscription")
	if l.notices.Notified.Load() {
		t.Error("the node counts on hearing of changes before it has heard anything")
	}
	if _, err := l.reserve(t.Context(), script.Ask{Seq: 1, Hello: true, Identity: string(IdentityNone), Known: seeded(contract(300))}); err != nil {
		t.Fatal(err)
	}
	for !l.notices.Notified.Load() {
		runtime.Gosched() // the word to the node itself is on its way
	}
	operator, err := control.NewControl(rdb, "notices", "provider")
	if err != nil {
		t.Fatal(err)
	}
	for _, units := range []int64{200, 100} {
		if _, err := operator.Set(t.Context(), control.Change{Values: parameters.Values{"cap": fmt.Sprint(units)}, By: "test"}); err != nil {
			t.Fatal(err)
		}
		awaitChange(t, l, "a change")
	}
	stop()
	<-done
	if l.notices.Notified.Load() {
		t.Error("the node counts on hearing of changes, and nothing listens any more")
	}
}

func awaitChange(t *testing.T, l *Limiter, what string) {
	t.Helper()
	select {
	case <-l.changed:
	case <-time.After(time.Minute):
		t.Fatalf("nothing was heard of %s", what)
	}
}

func TestANodeIsNotifiedOfChanges(t *testing.T) {
	t.Parallel()
	hearsOfChanges(t, patient(t, miniredis.RunT(t).Addr()))
}

func TestANodeIsNotifiedOfChangesReal(t *testing.T) {
	t.Parallel()
	hearsOfChanges(t, redisclient.New(redisclient.Options{Addrs: []string{containers.Redis(t).Addr}}))
}
