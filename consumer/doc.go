// Package consumer reads jobs from Kafka and settles them: group membership, fetching, order
// by key, offsets, dead letters, retry topics and results. This package checks the options
// and the topics, puts the packages below together, and reports status and metrics.
//
// # What it does not do
//
// It does not wait for a rate limit, call a provider or decide what follows a result. It
// hands out a [Delivery]; the worker decides, and calls one of its methods. Dead and
// RetryLater return when Kafka has the record or the drain gives it up, the others at once. It
// does not promise exactly once: a job is handed out again if the node dies between the call
// and the next commit. Compacted topics are refused: compaction deletes jobs, and a batch of
// which it has left nothing can't be passed.
//
// # The way of a job
//
//	broker ─► fetch ─► schedule ─► TakeFrom, worker ─► schedule ─► group: commit
//	                    │    ▲                           ▲
//	                    │    └── asleep until due        │ settled
//	                    └─ diverted ─► settle ◄──────────┘ Done, Dead, RetryLater
//	                                     └─► produce ─► Kafka
//
// fetch reads the partitions of an assignment and decodes their records. schedule has
// everything under one lock: buffers, key queues, lanes, timers, the state of each delivery,
// and the offset trackers; it decides which job a worker gets next. settle writes the dead
// letter, the retry record and the result of a job; deadletter says what such records hold,
// and produce writes them. group joins, commits, and drains at the end of an assignment.
//
// Below them, states, linked, order, turns, timers, sleepers, diversion, steps, backlog, lifetime and status are what schedule is made
// of, as far as that knows nothing of its lock. batches has what record batches unpack to, offsets knows which offsets are complete and
// the format of a commit's metadata, health remembers what is failing, broker and auth are the way to the cluster, and topicname
// has the names of derived topics. Package dlq, beside this one, is for operators. A lint
// rule holds that each imports only the ones below it.
//
// Each topic of jobs and each of its retry topics is a source with a group of its own, named
// <group>.<topic>. Topics belong to lanes; see [Lane]. Each lane has room for
// [Options.Workers] jobs that are ready or in flight; in a fair lane only those in flight count.
//
// # Who owns which goroutine
//
// [Consumer.Run] starts these and returns after the last of them:
//
//	KeepTime, one            of schedule: ends sleeps, times jobs out; ends after the groups
//	KeepLogging, one         of settle: logs sums of dead letters; likewise
//	membership watch, one    ends the groups on LeaveGroups; started by runGroups, ends then or with Run's context
//	group, one a source      holds the membership; ends with the context of Run or with the watch
//	generation, one a group  kafka-go's; commits, and drains before it returns
//	five a generation        see package group; they end with the generation
//	requests                 of fetch; each ends with its answer or with the generation
//	kgo's                    see package produce; they end with Run
//
// The goroutine that takes jobs belongs to the caller. It receives from [Consumer.Ready]
// until Run closes it.
//
// # The end of an assignment
//
// On a revoke, on [Consumer.LeaveGroups] and when the context of Run ends, in this order:
//
//  1. The deliveries' context ends with its cause, and fetching stops. All jobs that were
//     not handed out are dropped: ready and sleeping ones, and those to be dead-lettered of
//     which no record is being written.
//     [Options.SlotTime] later the context for calls ends: until then jobs that have a slot are called.
//  2. Calls in flight and records being written are awaited for [Options.Drain] at most,
//     records longer while no broker answers, and commits go on.
//  3. The assignment is closed. A job that is settled later has no effect: its offset may
//     belong to another member.
//  4. One last commit. When the node leaves, heartbeats go on until then.
//
// # Failure
//
//   - No broker at the start: Run keeps trying. A missing topic, refused credentials or a bad
//     certificate: an error of Run.
//   - No broker later: settled jobs are committed when one answers, as long as the group
//     knows this member.
//   - Fetches and commits that fail are tried again, and delay nothing else. So are results,
//     but their jobs stay in flight: the node stops when they fill a lane. The log warns each
//     minute, and after 10 seconds [Status.Ready] returns the fault.
//   - Retention deletes jobs that are not complete: they are lost, and the log says so.
//   - The topic is deleted and created again, or the log truncated: [Options.OutOfRange] and
//     package offsets say where the group goes on. That takes topic ids, so Kafka 2.8.
package consumer
