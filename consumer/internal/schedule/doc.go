// Package schedule decides which of the fetched jobs a worker gets next. It holds
// everything that one lock guards: buffers, key queues, lanes, timers, the state of each
// delivery, and the offset trackers. So "is this assignment over?" and "complete this
// offset" are one step.
//
// # What it does not do
//
// It does not talk to Kafka. It gets batches from package fetch, and package group commits
// its offsets. A [Settler] writes the records that have to be in Kafka before a job is
// settled.
//
// # How it works
//
//	Add ─► buffer ─► admitted ─► due? ─► key free? ─► ready ─► TakeFrom ─► settled
//	                             │          └► behind the job of its key that goes first
//	                             └► asleep until its time, or diverted to a retry topic
//
// A batch that comes, a job that is settled and a timer that ends make the next jobs ready.
// Each of them calls fill, which takes one job a partition in turn while the lane has room.
// No job is pushed to a worker: [Scheduler.TakeFrom] returns the job of a lane that is best at that moment,
// so an urgent job that comes late waits behind no job that is only ready.
//
// In a lane that is not fair, ready jobs and jobs in flight share one bound. A fair lane makes all
// jobs ready that may go, since its tenants take turns over those that are ready.
//
// Its parts that know nothing of the lock have packages of their own, and the scheduler's lock guards them: package states is the life of a job, linked the lists of jobs and
// partitions, turns the queue of ready jobs of a lane, timers the times that jobs and partitions wait for, sleepers the bound on jobs
// asleep, order the key queues, diversion where a job goes that no worker gets, steps the log of a job's steps, backlog the counts of a lane, lifetime the
// contexts of an assignment.
//
// In settle.go and sleep.go are the calls by which a worker gives a job away, in divert.go the
// jobs whose records the scheduler has written without a worker.
//
// find.go and status.go fill in what package status shows operators, and decide nothing.
//
// # Who owns which goroutine
//
// The package starts none. [Scheduler.KeepTime] runs in one that its caller starts. All
// methods may be called from any goroutine. The lock is never held across a wait.
//
// # Failure
//
// The package does no I/O, so nothing fails. A record that can't be written leaves its
// offset open.
//
// # Reasons
//
// Lanes. The limiter keeps their order and their min shares over the fleet: it says for jobs
// of which lane the pacer is to ask. So [Scheduler.TakeFrom] is asked for a lane, and a lane
// that gets its first job ready gives a notice. A lane whose calls all hang blocks no other:
// each has its own bound of jobs in flight, and as many workers.
//
// The lane of a job is that of its topic. A header that names another lane makes the job a
// dead letter. At the priority of its topic it would come later than its producer meant. Ahead
// of its partition it would have to be searched for behind what lies before it in the log. In
// another topic it would lose its order.
//
// A record of a retry topic is looked at when its delay is over, or at x-not-before if that is
// earlier, and never later than one delay after it was fetched. So
// clocks that differ cost a pass through a topic, not a job. A job that leaves a retry topic
// and is still not due goes on to the longest one that is over by then, or sleeps.
//
// A first retry topic of minutes is a bad choice: jobs with shorter waits sleep, and a
// sleeping job is open, so it holds the tracker's window for as long.
//
// A job that waits for the end of an outage, or that was throttled, stays in memory even where
// there are retry topics, unless as many jobs sleep as may: such a wait ends for all at once.
// In the orders key and partition a retry always waits in memory, or later jobs would overtake
// it.
//
// When its time has come, a job that failed or waited for a limit takes turns with the fresh jobs of its partition,
// one each. So many retries at once take at most every second place. In the order partition it goes first, since no job of
// the buffer may overtake it. A job that slept until its not-before goes before the buffer, too.
//
// Jobs that sleep count for the node's bound on sleepers alone, and not for what a partition or all of them may hold. Otherwise a few
// large jobs whose quota is used up until midnight would stop all others of their partition. In a fair lane they count for what a
// partition holds, since the bound leaves out those that a limit refuses. Once awake, jobs count for the budget of all partitions
// again.
//
// Beyond the node's bound on sleepers (MaxAsleep, MaxAsleepBytes):
//
//	order none, with retry topics   a job that fails goes to the retry topic that suits its wait, also in an outage; it sleeps where
//	                                its wait is shorter than the first one, or where nobody knows yet whose failure it was
//	key, partition, or no topics    it sleeps all the same: the bound may be exceeded by as many jobs as are ready or in flight
//
// Beyond the whole bound no partition is fetched and no fresh job is made ready, except one sample at a
// time of what was fetched: it may show that the provider is up. A backlog of more bad jobs
// than can sleep, with no good one within reach, looks like an outage, and is waited for.
//
// A worker whose job timed out counts as in flight until it lets go, or a job would be handed
// to nobody.
package schedule
