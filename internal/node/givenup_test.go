package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"dispatcher/consumer"
	"dispatcher/internal/background"
	"dispatcher/internal/redisclient"
	"dispatcher/throttle"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// givenUp returns a limiter that was paused, and slots that it had reserved before.
func givenUp(t *testing.T, n int) (*throttle.Limiter, []throttle.Slot) {
	t.Helper()
	rdb := redisclient.New(redisclient.Options{Addrs: []string{miniredis.RunT(t).Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	c := limit.Contract{Cap: 10, Window: time.Second, Burst: 1, Guard: limit.DefaultGuard, Lateness: limit.DefaultLateness, Horizon: limit.DefaultHorizon}
	lim, err := throttle.New(throttle.Options{
		Redis: rdb, Namespace: "default", Name: "provider", Node: "n", Identity: throttle.IdentityNone,
		Limit: limit.Spec{Terms: limit.Terms{Contract: c}},
	})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, lim.Run)
	var slots []throttle.Slot
	for len(slots) < n {
		s, err := nextSlot(t.Context(), lim)
		if err != nil {
			t.Fatal(err)
		}
		slots = append(slots, s)
	}
	operator, err := control.NewControl(rdb, "default", "provider")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operator.Set(t.Context(), control.Change{Values: parameters.Values{"paused": "true"}, By: "test"}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !slots[0].GivenUp(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the slots are not given up a minute after the pause")
		}
	}
	return lim, slots
}

// A pause holds no admitted job: the pacer puts those back that no worker has.
func TestAPausePutsAdmittedJobsBack(t *testing.T) {
	t.Parallel()
	lim, slots := givenUp(t, 3)
	items := make(chan workItem, len(slots))
	s := &shelf{}
	p := &pacer{jobs: s, items: items, conns: alwaysReady{}, limiter: lim, places: make(chan struct{}, maxUnwritten)}
	var block []workItem
	for _, slot := range slots {
		block = append(block, workItem{d: &consumer.Delivery{}, slot: slot})
	}
	p.admitted = make(chan []workItem, 1)
	p.admitted <- block
	close(p.admitted)
	p.handOut(t.Context())
	if len(items) != 0 || len(p.places) != 0 || s.n.Load() != int64(len(block)) {
		t.Errorf("got %d jobs with workers, %d places in use and %d jobs put back, want 0, 0 and %d", len(items), len(p.places), s.n.Load(), len(block))
	}
}

// A worker whose slot was given up does not wait for another one.
func TestAPauseKeepsNoWorker(t *testing.T) {
	t.Parallel()
	lim, slots := givenUp(t, 1)
	v := &visit{workerPool: &workerPool{limiter: lim}, workItem: workItem{slot: slots[0]}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := v.permit(ctx); !errors.Is(err, throttle.ErrGivenUp) {
		t.Errorf("got %v, want that the slot was given up", err)
	}
	if !v.slot.IsZero() {
		t.Error("the worker keeps a slot that was given up")
	}
}
