// Package notify lets Redis wake a node for a poll: settings changed, a cooldown began, a slowdown
// changed, or a step of the clock is to be judged. So the node need not poll so often.
//
// It is a convenience: a notification only means that a poll is worth while. A node that gets
// none, having no permission, no connection or a fleet that may not publish, polls more often
// instead. So no fault of a subscription is an error; the node tries again.
//
// [Subscription.Run] is one goroutine, which the limiter starts and awaits. The package starts none.
package notify
