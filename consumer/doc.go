// Package consumer reads jobs from Kafka and settles them: groups, fetching,
// the ledger of open offsets, order by key, commits and dead letters. A
// [Producer] writes jobs, for the command line and for tests.
//
// # What it does not do
//
// It does not wait for a rate limit, call a provider or decide what a result
// means; it hands out a [Delivery] and carries out what it is told. It does not
// promise exactly once: a job whose call ended, and whose mark was not committed
// when the node died, is handed out again. Compacted topics are refused: compaction
// deletes jobs, and a batch of which it has left nothing can't be passed. A member
// that stops while it joins waits for the join to end.
//
// # How it works
//
// [Consumer.Run] checks the topics, then joins one group a topic and one a retry
// tier, named <group>.<topic>. Each generation of a group makes an assignment: its
// partitions with their ledgers, one fetcher, and one committer. The fetcher asks
// each broker for all partitions that it leads at once.
//
//	fetcher ─► buffer ─► ledger admits ─► due? ─► key free? ─► ready ─► Take ─► Done, Dead, Later, Sleep, Return
//	                                       │          └► behind the job of its key that goes before it
//	                                       └► a retry tier, or asleep in memory
//
// The hub moves jobs along. Whoever brings some or makes room for some makes
// the next ones ready, one a partition in turn, while fewer than InHand are
// ready or out. Nothing is pushed: [Consumer.Take] gives the job that is best at
// that moment, so a job that comes late and goes first waits behind nobody. One
// whose not-after has passed by then goes to the dead letters instead.
//
// Topics belong to lanes. The job of the first lane is the best, unless another
// one is owed its min share; see [Lane]. Each lane has room for InHand jobs.
//
// A partition that has enough waiting isn't fetched; heartbeats go on. Nor is one
// that holds its share of [Options.BufferBytes] when these are used up.
//
// With [Options.Results] a job is settled through [Results], which first brings
// what became of it to <topic>.results:
//
//	Results.Done ─► writer ─► Kafka has it ─► Done
//
// One writer brings all records to derived topics, by one idempotent client of
// Kafka: a record is written once for each settlement, also by a broker that hangs.
//
// The ledger of a partition knows the commit point, the lowest offset that is
// not complete, and which later offsets are. Both are committed, the latter as
// the commit's metadata with the topic's id, so that one stuck job costs neither its
// partition nor repeats. It sees 8192 offsets; fetching pauses at three quarters of that.
//
// Jobs of one key come one at a time, in the order of their offsets; in
// partition order those of one partition do, which is the same with one chain
// for all. A returned job closes its chain until the next assignment.
//
// A job that is not due yet goes to a retry tier, <topic>.retry.<delay>, or waits
// in memory for what is left. A tier is a feed like its topic, in the same lane,
// but its first record is looked at only when its delay is over. [Delivery.RetryLater]
// brings a job that has failed there, in the order none. [Delivery.Sleep] keeps it in
// memory: it has no place in flight then, and holds its key at most.
//
// # Who owns which goroutine
//
// Run starts all of them and returns after the last one:
//
//	clock, one                   wakes what waits, expels what is stuck; ends after the groups
//	aside, one                   ends the membership when the node is to stand aside; ends after the groups
//	group, one a feed            ends with the context of Run
//	generation, one a group      kafka-go's; drains and commits before it returns
//	watcher, one a generation    turns its end into the deliveries' cause
//	fetcher, one a generation    ends with the deliveries' context
//	fetch request, up to four a broker and generation; ends with its answer, or with that context
//	digger, one a generation     brings to the dead letters what no worker is to see
//	beginner, one a generation   hands the partitions to the fetcher, each once it is known where it begins
//	id watcher, one a generation looks whether the topic is still the same, and who leads; ends after one more look
//	writer's client, one         kgo's, and one a topic that hands it records; ends with Run
//
// The taker belongs to the caller. It receives from [Consumer.Ready] until Run
// closes it.
//
// # The end of an assignment
//
// On a revoke, and when the context of Run ends, the drain's clock starts:
// fetching stops and what was not taken is dropped, ready or not, as are records
// that still wait for the dead letters; the deliveries' context ends with its cause; calls
// on the wire are awaited for Drain at most, and commits go on meanwhile; then
// the ledger is closed, and its last word is committed. A mark that comes later
// has no effect: it would move an offset that belongs to someone else. When the
// consumer stops, heartbeats go on until then, and the group is left last.
//
// [Consumer.LeaveGroups] does the same for a while, and Run goes on.
//
// # Failure
//
//   - No broker: Run keeps trying, with a log line a try.
//   - No broker any more: what is settled is kept until one answers, and committed
//     then, as long as the group still knows this member.
//   - A missing topic, refused credentials or a bad certificate at the start:
//     an error of Run.
//   - A commit that fails is tried again at the next interval, with what is true
//     then. One that says that the group has moved on ends the assignment at once.
//   - A dead-letter topic or a tier can't be written: tried again until the assignment
//     ends; the job stays open, and other topics go on. A letter that is too large
//     is cut until it fits; a job that is too large for its tier is tried in place.
//   - A broker hangs: what may have been written is awaited, as long as the drain
//     lasts, or as long as no broker answers.
//   - Results can't be written: tried again until the drain ends; their jobs stay
//     open, and after 10 seconds [Status.Ready] says so.
//   - A partition without a leader, or whose fetches fail: tried again by itself,
//     beside the others. What lasts is told each minute, and after 10 seconds
//     [Status.Ready] says so, as it does of commits.
//   - The log's beginning overtakes a job that is not complete: it is lost, the
//     log says so, and what is marked behind it still counts.
//   - A topic that is deleted and made again while the node runs is waited for, and
//     read from where Options.OutOfRange says. Its id tells, so not before Kafka 2.8.
//   - A committed offset beyond the end of the log, with the topic's id: the log
//     was cut. The group goes on at its end, and the log says so.
//   - A committed offset with another topic's id, or beyond the end of the log
//     without an id, is not one of this log. Then the group starts at the first
//     record: nothing is lost, jobs may be repeated.
package consumer
