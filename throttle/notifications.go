package throttle

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/wait"
	"dispatcher/throttle/internal/script"
)

// silenceMost is how long no notification may come before the node tries the
// connection, and then again before the connection counts as lost.
const silenceMost = 2 * time.Second

// subscribe lets Redis wake the reserving goroutine when the settings change, so
// that a node need not poll so often. It is a convenience: a notification only
// means that a poll is worth while. A node that gets none, having no permission,
// no connection or a fleet that may not publish, polls more often instead.
// subscribe returns when ctx ends.
func (l *Limiter) subscribe(ctx context.Context) {
	channels := []string{script.KeysOf(l.opts.Namespace, l.opts.Name).Limit}
	for _, g := range l.opts.Gates {
		channels = append(channels, script.KeysOf(l.opts.Namespace, g.Name).Limit)
	}
	sub := l.opts.Redis.Subscribe(ctx, channels...)
	// ReceiveTimeout ignores ctx. Nothing is under way that the error of closing
	// could concern.
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })()
	defer func() { _ = sub.Close() }()
	defer l.unsubscribed()
	silent := false
	for ctx.Err() == nil {
		message, err := sub.ReceiveTimeout(ctx, silenceMost)
		switch {
		case err == nil:
			silent = false
			l.receive(message)
		case script.TimedOut(err) && !silent && sub.Ping(ctx) == nil:
			silent = true
		default:
			l.unsubscribed()
			wait.For(ctx, retryMost)
		}
	}
}

// unsubscribed notes that no notification comes until the node has subscribed again.
func (l *Limiter) unsubscribed() {
	l.subscribed.Store(false)
	l.notified.Store(false)
}

// helloTo begins a message that reserve.lua publishes on a node's request. It proves
// to that node that it gets notifications; the others ignore it.
const helloTo = "hello "

// receive wakes the reserving goroutine; also after a subscription, since earlier
// notifications were missed.
func (l *Limiter) receive(message any) {
	switch m := message.(type) {
	case *redis.Subscription:
		l.subscribed.Store(true)
	case *redis.Message:
		node, hello := strings.CutPrefix(m.Payload, helloTo)
		if hello && node != l.node {
			return
		}
		l.notified.Store(true)
		if hello {
			return
		}
	default: // a pong
		return
	}
	l.wake(l.changed)
}
