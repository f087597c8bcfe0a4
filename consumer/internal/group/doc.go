// Package group is a node's membership in the group of one topic: join, assignment, drain,
// commit, and what follows when the topic is deleted and created again.
//
// Each generation of the group makes one assignment, which runs these goroutines and returns
// after the last of them:
//
//	watch         turns the end of the generation, or of the node, into the deliveries' cause
//	RunRejected   of package settle: writes what no worker is to see
//	watchTopic    asks each second whether the topic is still the same, and who leads
//	fetcher       of package fetch
//	begin         hands the partitions to the fetcher, each once it is known where it begins
//
// The goroutine of the generation commits at an interval. When the assignment ends, it stops
// handing out, awaits calls in flight for the drain at most, and commits once more. A commit
// that comes later would move an offset that belongs to another member, so the scheduler
// completes nothing after [schedule.Scheduler.Close].
//
// Failure: a commit that fails is tried again at the next interval. While no broker answers,
// the last commit is kept: nobody can take over by way of a broker that is away. A commit that
// says that the group has moved on ends the assignment at once.
package group
