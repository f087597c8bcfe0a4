// Package group is a node's membership in the group of one topic: join, assignment, drain,
// commit, and the reset of offsets when the topic is deleted and created again.
//
// Each generation of the group makes one assignment, which runs these goroutines and returns
// after the last of them:
//
//	watch         ends the deliveries' context when the generation or the node ends
//	begin         starts each partition once its start offset is known
//	fetcher       of package fetch
//	RunRejected   of package settle: writes the jobs that no worker sees
//	watchTopic    asks each second for the topic's id and its leaders
//
// The goroutine of the generation commits at an interval. When the assignment ends, it drops
// the jobs that no worker has, awaits calls in flight for the drain at most, and commits once
// more. A later commit would move an offset that belongs to another member, so no offset is
// completed after [schedule.Assignment.Close].
//
// Failure: a commit that fails is tried again at the next interval. While no broker answers,
// the last commit is tried until one does: no member can take over meanwhile. A commit whose
// answer says that the group has moved on ends the assignment at once.
package group
