package worker

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"

	"dispatcher/configs"
	"dispatcher/internal/dedup"
	"dispatcher/internal/redisclient"
	"dispatcher/sender"
	"dispatcher/throttle"
)

// dedupStore runs a dedup store whose claims must be used within the margin.
func dedupStore(t *testing.T, margin time.Duration) *dedup.Store {
	t.Helper()
	rdb := redisclient.New(redisclient.Options{Addrs: []string{miniredis.RunT(t).Addr()}})
	store, err := dedup.New(dedup.Options{Redis: rdb, Namespace: "default", CallTimeout: time.Second, Config: dedup.Config{Margin: margin}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- store.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the dedup store ended with %v", err)
		}
		_ = rdb.Close()
	})
	return store
}

// visitWith is a visit, as far as the dedup store needs one.
func visitWith(store *dedup.Store, id string) *visit {
	return &visit{Handler: &Handler{o: Options{Dedup: store}}, memo: memo{entry: store.Open(id), entryID: id}}
}

// A call must begin before the end of its slot and before the end of its claim,
// whichever is first: beyond the slot it would pass the cap, and beyond the claim
// another node may call.
func TestACallBeginsWithinItsSlotAndItsClaim(t *testing.T) {
	t.Parallel()
	const margin = time.Second
	store := dedupStore(t, margin)
	jobs := 0
	rapid.Check(t, func(rt *rapid.T) {
		jobs++
		slot := time.Duration(rapid.Int64Range(int64(margin/100), int64(3*margin)).Draw(rt, "slot"))
		a := visitWith(store, time.Duration(jobs).String())
		before := time.Now()
		a.Slot = throttle.Slot{NotBefore: before, NotAfter: before.Add(slot)}
		useBy, err := a.claim(t.Context())
		after := time.Now()
		if err != nil {
			rt.Fatal(err)
		}
		claimFrom, claimTo := before.Add(margin), after.Add(margin) // it was asked for in between
		switch {
		case useBy.At.After(a.Slot.NotAfter):
			rt.Fatalf("got %v after the end of the slot", useBy.At.Sub(a.Slot.NotAfter))
		case useBy.At.After(claimTo):
			rt.Fatalf("got %v after the end of the claim", useBy.At.Sub(claimTo))
		case useBy.At.Before(a.Slot.NotAfter) && useBy.At.Before(claimFrom):
			rt.Fatalf("got %v, before the end of the slot (%v) and of the claim (%v)", useBy, a.Slot.NotAfter, claimFrom)
		}
	})
}

// A job whose call may have been done stays claimed until its claim is over, also when
// this node gives the job back: nobody else may call it. A job whose call surely did
// nothing is free at once.
func TestAClaimStaysAfterACallWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	store := dedupStore(t, 10*time.Second)
	for _, c := range []struct {
		result sender.Kind
		free   bool
	}{
		{sender.Unknown, false},
		{sender.Unavailable, true},
		{sender.Throttled, true},
		{sender.NotSent, true},
	} {
		a := visitWith(store, "job "+c.result.String())
		slot := throttle.Slot{NotBefore: time.Now(), NotAfter: time.Now().Add(time.Minute)}
		a.Slot = slot
		if _, err := a.claim(t.Context()); err != nil {
			t.Fatal(err)
		}
		retry := Policy{OnUnknown: configs.UnknownRetry, Attempts: 3}
		a.endClaim(decide(retry, a.history, event{hasResult: true, result: sender.Result{Kind: c.result}}), func() {})
		a.endClaim(decision{action: doRelease}, func() {})
		other, err := store.Open(a.entryID).Claim(t.Context(), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if free := other.Standing == dedup.Granted; free != c.free {
			t.Errorf("after a call that is %s another delivery got %s; want it free: %t", c.result, other.Standing, c.free)
		}
	}
}
