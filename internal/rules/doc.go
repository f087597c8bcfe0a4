// Package rules lets operators cancel or hold jobs that are on their way: those for which an expression is true, until a time.
//
//	operator ──► [Store] ──► dispatcher:{namespace}:rules ──► [Watcher] of each node ──► pacer, before it asks for a slot
//
// A job that a rule cancels becomes a dead letter, class cancelled, so it can be replayed. A job that a rule holds waits, and is
// looked at again until the rule has ended. Of several rules that match a job, one that cancels wins.
//
// # What it does not do
//
// It does not see a job before its node has fetched it, nor one that has its slot already: its call comes within the horizon. It
// settles nothing; the pacer does.
//
// # Who owns which goroutine
//
// [Watcher.Run] works on its caller's goroutine. go-redis has two for its subscription.
//
// # Failure
//
// A change acts at once by a notification, and within two seconds where that was lost: the call that publishes the node's figures
// says which revision is in force, and a watcher that does not hear of it asks for itself. While Redis does not answer, a node keeps the
// rules that it knows until they end. Where Redis has lost them, the node puts them back, under the revision that they had. A rule
// that fails on a job does not match it, and that is counted. There are at most [MostRules] rules, and none lasts longer than [Longest].
package rules
