// Package health takes a stalled node out of its Kafka groups, so that other nodes
// get its partitions.
//
// Kafka can't see that a node is stalled: its heartbeats go on while it can't reach
// Redis or the provider. A node is unhealthy while its limit is not ready or its
// circuit breaker is open. A limit that is paused, cooling down, changing, blocked or on
// its reserve does not make a node unhealthy. A node that was unhealthy for `kafka.stalled_after`, with jobs to do, is
// stalled and leaves its groups.
//
// It rejoins when it is healthy again. If the provider was the cause, only a call can show
// that, and a node without partitions makes no calls. So it also rejoins after a
// rest, which doubles each time, up to eight times `stalled_after`.
//
// An outage of Redis or of the provider hits all nodes, and moving partitions would
// help nobody. So the node leaves only for others that can do its work: they completed
// jobs, or they are idle, over the last quarter of `stalled_after`. A node is idle whose
// jobs all wait in retry topics. Commits before that may be of calls that were in flight when the outage began. If the others neither
// completed a job nor were idle while the node was away, it does not leave again for idle nodes until it was
// healthy. So an outage moves a partition only to an idle node, once.
//
// While Kafka does not answer, the progress of others is not known and the node stays.
//
// [Check.Run] is the package's only goroutine; [dispatcher/internal/node] starts it.
package health
