package throttle

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// hearEvery is how long nothing may be heard from Redis before the connection
// is tried, and then again before it counts as lost.
const hearEvery = 2 * time.Second

// subscribe lets Redis wake the booking goroutine when the settings change, so
// that a node need not ask so often. It is a convenience: what is told is only
// that a look is worth while, and where nothing can be heard (no permission, no
// connection) the node looks more often instead. It returns when ctx ends.
func (l *Limiter) subscribe(ctx context.Context) {
	sub := l.opts.Redis.Subscribe(ctx, keysOf(l.opts.Namespace, l.opts.Name).limit)
	// Waiting for Redis's word heeds no context. Nothing is under way that the
	// error of closing could concern.
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })()
	defer func() { _ = sub.Close() }()
	defer l.told.Store(false)
	silent := false
	for ctx.Err() == nil {
		heard, err := sub.ReceiveTimeout(ctx, hearEvery)
		switch {
		case err == nil:
			silent = false
			l.hear(heard)
		case quiet(err) && !silent && sub.Ping(ctx) == nil:
			silent = true
		default:
			l.told.Store(false)
			pause(ctx, retryMost)
		}
	}
}

// hear wakes the booking goroutine; also after a subscription, for what was
// said before it was missed.
func (l *Limiter) hear(what any) {
	if _, pong := what.(*redis.Pong); pong {
		return
	}
	l.told.Store(true)
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// quiet reports whether nothing came in time, which is no fault.
func quiet(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
