// Package sleepers bounds the jobs that sleep on a node, and their bytes: beyond its [Bound] no partition is to be fetched, and no
// fresh job made ready.
//
// Above half of the bound, the jobs of a partition that wait for a limit have an equal part of that half. So one value of a limit with
// a long backlog does not stop the other partitions.
//
// # What it does not do
//
// It refuses no job: a call that fails has to be waited for, so a job may sleep beyond the bound. It knows no partitions and no
// timers. Its caller guards it with a lock; it starts no goroutine, and nothing in it fails.
package sleepers
