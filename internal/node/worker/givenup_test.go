package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"dispatcher/internal/node/pacer"
	"dispatcher/internal/redisclient"
	"dispatcher/throttle"
	"dispatcher/throttle/throttletest"
)

// A worker whose slot was given up does not wait for another one.
func TestAPauseKeepsNoWorker(t *testing.T) {
	t.Parallel()
	rdb := redisclient.New(redisclient.Options{Addrs: []string{miniredis.RunT(t).Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	lim, slots := throttletest.GivenUp(t, rdb, 1)
	v := &visit{Handler: &Handler{o: Options{Limiter: lim}}, Item: pacer.Item{Slot: slots[0]}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := v.permit(ctx); !errors.Is(err, throttle.ErrGivenUp) {
		t.Errorf("got %v, want that the slot was given up", err)
	}
	if !v.Slot.IsZero() {
		t.Error("the worker keeps a slot that was given up")
	}
}
