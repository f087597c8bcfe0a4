package throttle

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// hearEvery is how long nothing may be heard from Redis before the connection
// is tried, and then again before it counts as lost.
const hearEvery = 2 * time.Second

// subscribe lets Redis wake the reserving goroutine when the settings change, so
// that a node need not poll so often. It is a convenience: a message says only
// that a poll is worth while. A node that has heard nothing, having no permission,
// no connection or a fleet that may not publish, polls more often instead. It
// returns when ctx ends.
func (l *Limiter) subscribe(ctx context.Context) {
	sub := l.opts.Redis.Subscribe(ctx, keysOf(l.opts.Namespace, l.opts.Name).limit)
	// Waiting for a message heeds no context. Nothing is under way that the error of
	// closing could concern.
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })()
	defer func() { _ = sub.Close() }()
	defer l.deaf()
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
			l.deaf()
			pause(ctx, retryMost)
		}
	}
}

// deaf notes that nothing can be heard until the node has subscribed again.
func (l *Limiter) deaf() {
	l.listens.Store(false)
	l.heard.Store(false)
}

// helloTo is a word that book.lua publishes on a node's request. It proves to that
// node that it would hear of a change; the others do not heed it.
const helloTo = "hello "

// hear wakes the reserving goroutine; also after a subscription, for what was
// said before it was missed.
func (l *Limiter) hear(what any) {
	switch m := what.(type) {
	case *redis.Subscription:
		l.listens.Store(true)
	case *redis.Message:
		node, hello := strings.CutPrefix(m.Payload, helloTo)
		if hello && node != l.node {
			return
		}
		l.heard.Store(true)
		if hello {
			return
		}
	default: // a pong
		return
	}
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
