package notify

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/wait"
	"dispatcher/throttle/internal/script"
)

const (
	// silenceMost is how long no notification may come before the node tries the
	// connection, and then again before the connection counts as lost.
	silenceMost = 2 * time.Second
	// again is when the node subscribes again after that.
	again = 200 * time.Millisecond
)

// Subscription is that of a node to the channels of its limits. [Subscription.Run] writes its state, which
// may be read on any goroutine.
type Subscription struct {
	rdb      redis.UniversalClient
	channels []string
	node     string
	changed  chan<- struct{}

	Subscribed atomic.Bool // to one of the channels at least
	Notified   atomic.Bool // a notification has come since then, so changes will come as well
}

// New is for limits of a namespace. It writes to changed when a poll is worth while; the channel holds one notice.
func New(rdb redis.UniversalClient, namespace string, limits []string, node string, changed chan<- struct{}) *Subscription {
	s := &Subscription{rdb: rdb, node: node, changed: changed}
	for _, name := range limits {
		s.channels = append(s.channels, script.KeysOf(namespace, name).Limit)
	}
	return s
}

// Run returns when ctx ends.
func (s *Subscription) Run(ctx context.Context) {
	sub := s.rdb.Subscribe(ctx, s.channels...)
	// ReceiveTimeout ignores ctx. Nothing is under way that the error of closing
	// could concern.
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })()
	defer func() { _ = sub.Close() }()
	defer s.lost()
	silent := false
	for ctx.Err() == nil {
		message, err := sub.ReceiveTimeout(ctx, silenceMost)
		switch {
		case err == nil:
			silent = false
			s.receive(message)
		case script.TimedOut(err) && !silent && sub.Ping(ctx) == nil:
			silent = true
		default:
			s.lost()
			wait.For(ctx, again)
		}
	}
}

// lost notes that no notification comes until the node has subscribed again.
func (s *Subscription) lost() {
	s.Subscribed.Store(false)
	s.Notified.Store(false)
}

// helloTo begins a message that reserve.lua publishes on a node's request. It proves
// to that node that it gets notifications; the others ignore it.
const helloTo = "hello "

// receive wakes the reserving goroutine; also after a subscription, since earlier
// notifications were missed.
func (s *Subscription) receive(message any) {
	switch m := message.(type) {
	case *redis.Subscription:
		s.Subscribed.Store(true)
	case *redis.Message:
		node, hello := strings.CutPrefix(m.Payload, helloTo)
		if hello && node != s.node {
			return
		}
		s.Notified.Store(true)
		if hello {
			return
		}
	default: // a pong
		return
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}
