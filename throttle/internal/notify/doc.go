// Package notify lets Redis wake a node when the settings of its limits change, so that the
// node need not poll so often.
//
// It is a convenience: a notification only means that a poll is worth while. A node that gets
// none, having no permission, no connection or a fleet that may not publish, polls more often
// instead. So no fault of a subscription is an error; the node tries again.
//
// [Subscription.Run] is one goroutine of the caller. The package starts none.
package notify
