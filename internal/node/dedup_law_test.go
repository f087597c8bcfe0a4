package node

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"

	"dispatcher/internal/dedup"
	"dispatcher/sender"
	"dispatcher/throttle"
)

// ledgerOnRedis runs a dedup store whose claims must be used within the margin.
func ledgerOnRedis(t *testing.T, margin time.Duration) *dedup.Store {
	t.Helper()
	rdb := throttle.NewClient(throttle.ClientOptions{Addrs: []string{miniredis.RunT(t).Addr()}})
	l, err := dedup.New(dedup.Options{Redis: rdb, Namespace: "default", CallTimeout: time.Second, Config: dedup.Config{Margin: margin}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the dedup store ended with %v", err)
		}
		_ = rdb.Close()
	})
	return l
}

// tryOf is a job's way with a dedup store, as far as that goes.
func tryOf(l *dedup.Store, id string) *try {
	return &try{crew: &crew{dedup: l}, history: history{entry: l.Open(id), entryID: id}}
}

// A call must begin before the end of its slot and before the end of its claim,
// whichever is first: beyond the slot it would pass the cap, and beyond the claim
// another node may call.
func TestACallBeginsWithinItsSlotAndItsClaim(t *testing.T) {
	t.Parallel()
	const margin = time.Second
	l := ledgerOnRedis(t, margin)
	jobs := 0
	rapid.Check(t, func(rt *rapid.T) {
		jobs++
		slot := time.Duration(rapid.Int64Range(int64(margin/100), int64(3*margin)).Draw(rt, "slot"))
		try := tryOf(l, time.Duration(jobs).String())
		before := time.Now()
		try.used = throttle.Slot{NotBefore: before, NotAfter: before.Add(slot)}
		useBy, err := try.claim(t.Context())
		after := time.Now()
		if err != nil {
			rt.Fatal(err)
		}
		claimFrom, claimTo := before.Add(margin), after.Add(margin) // it was asked for in between
		switch {
		case useBy.After(try.used.NotAfter):
			rt.Fatalf("got %v after the end of the slot", useBy.Sub(try.used.NotAfter))
		case useBy.After(claimTo):
			rt.Fatalf("got %v after the end of the claim", useBy.Sub(claimTo))
		case useBy.Before(try.used.NotAfter) && useBy.Before(claimFrom):
			rt.Fatalf("got %v, before the end of the slot (%v) and of the claim (%v)", useBy, try.used.NotAfter, claimFrom)
		}
	})
}

// What may have been done stays claimed: nobody else may call the job until its
// claim is over, also when this node gives the job back. What surely did nothing
// is free at once.
func TestAClaimStaysAfterACallWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	l := ledgerOnRedis(t, 10*time.Second)
	for _, c := range []struct {
		result sender.Kind
		free   bool
	}{
		{sender.Unknown, false},
		{sender.Unavailable, true},
		{sender.Throttled, true},
		{sender.NotSent, true},
	} {
		try := tryOf(l, "job "+c.result.String())
		slot := throttle.Slot{NotBefore: time.Now(), NotAfter: time.Now().Add(time.Minute)}
		try.used = slot
		if _, err := try.claim(t.Context()); err != nil {
			t.Fatal(err)
		}
		try.missed(sender.Result{Kind: c.result})
		try.release()
		other, err := l.Open(try.entryID).Claim(t.Context(), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if free := other.Standing == dedup.Granted; free != c.free {
			t.Errorf("after a call that is %s another delivery is told %s; free is to be %t", c.result, other.Standing, c.free)
		}
	}
}
