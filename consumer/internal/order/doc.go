// Package order has the jobs of a key, or of a partition, go one at a time, in the order of their offsets. [Order] is the setting. [Keys]
// names the key queue of a record. [Queues] holds the key queues of one partition during one assignment.
//
// A key queue is the jobs of one key that have joined it and are not settled. A job joins once nothing but its order may hold it. The
// first job holds the key until it is settled: while it is ready, with a worker, asleep after a call or until a limit lets it pass, and
// while its record is being written. The others wait behind it. So within an assignment one job of a key is out at a time. They go in the
// order of their offsets, but for those with a not-before, which join when they are due. In partition order the partition is the key.
//
// The scheduler calls Join and Leave. This is what its events mean for a key:
//
//	the first job …              the key                      the next job
//	sleeps after a call          stays held                   waits on
//	is requeued                  stays held                   waits on
//	waits for a limit, or is     stays held                   waits on
//	held by a rule
//	is done                      stays held, until its        may go then
//	                             result is in Kafka, where
//	                             results are written
//	is dead-lettered             stays held, until its        may go then
//	                             record is in Kafka
//	expires while it is ready    likewise                     may go then
//	or asleep after a call
//	times out                    likewise                     may go then, although a worker may
//	                                                          still be in the call of the first
//	is released                  is closed                    is dropped; its offset stays open for
//	                                                          the next assignment
//	is awaited in a drain        is gone with all queues      is dropped likewise
//
// With the dedup store, a worker settles a job only after the store has its answered call. Once the assignment has ended, the worker
// waits for that until shortly before the end of the drain at most. The key is held for that time as well.
//
// A job that is not due yet is in no queue. It sleeps until its not-before or goes to a retry topic, and later jobs of its key overtake
// it. A job that has expired before it joins and a record that is no job never join: they go to the dead letters. With order key the
// records of a retry topic have queues of their own, with order partition they have none. A job that goes to a retry topic after a
// timeout keeps no order with the jobs of the topic that it leaves.
//
// # What it does not do
//
// It decides nothing: the scheduler says when a job joins and leaves, and guards the queues with its lock. The package starts no
// goroutine, and nothing in it fails.
package order
