package throttletest

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/background"
	"dispatcher/internal/wait"
	"dispatcher/throttle"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// T is a test.
type T interface {
	background.T
	Fatal(args ...any)
}

// NextSlot waits for one slot.
func NextSlot(ctx context.Context, l *throttle.Limiter) (throttle.Slot, error) {
	for {
		if _, err := l.Turn(ctx, throttle.OneLane, nil); err != nil {
			return throttle.Slot{}, err
		}
		answers, err := l.Reserve(ctx, []throttle.Request{{Cost: 1}})
		if err != nil || !answers[0].Slot.IsZero() {
			return append(answers, throttle.Answer{})[0].Slot, err
		}
	}
}

// GivenUp runs a limiter that was paused until the test has ended. It returns n slots that the limiter had reserved before.
func GivenUp(t T, rdb redis.UniversalClient, n int) (*throttle.Limiter, []throttle.Slot) {
	t.Helper()
	// The lateness is longer than a way to Redis and back, a race build on a slow machine included: else there is no slot.
	c := limit.Contract{Cap: 10, Window: time.Second, Burst: 1, Guard: 100 * time.Millisecond, Lateness: 60 * time.Millisecond, Horizon: limit.DefaultHorizon}
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
		s, err := NextSlot(t.Context(), lim)
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
	most, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !slots[0].GivenUp() {
		if !wait.For(most, time.Millisecond) {
			t.Fatal("the slots are not given up a minute after the pause")
		}
	}
	return lim, slots
}
