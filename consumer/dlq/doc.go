// Package dlq has the commands of operators for dead letters and parked jobs. A [Client] lists
// the open letters, and settles each by replaying or dropping it. Nodes write letters and never
// read them; package deadletter defines what a letter holds.
//
// # What is settled
//
// Kafka remembers which letters are settled, as it does for jobs: by the committed offset of
// the group <group>.<topic>.dlq, and by the bitmap of completed offsets in its metadata, in
// format v2 with the topic's id (see package offsets). The bitmap covers 8192 offsets from the first open letter
// on. A letter further away can be settled only when those before it are.
//
// Kafka forgets a group's offsets when nothing was committed for
// offsets.retention.minutes, a week by default. Then all letters that the topic still holds
// are open again. A command that settles warns about that.
//
// # Several commands at once
//
// Replay and Drop join the group as a consumer does, with a balancer that gives all partitions
// to one member; other commands wait. Kafka refuses a commit of an earlier generation. So
// nobody else commits between the reading of an offset and the commit, and two commands do not
// replay the same letter. A replay with a rate waits first; then it checks that it still has the
// partitions, and that the letters are open. If a command dies between writing a batch and its
// commit, those letters stay open. They are replayed again, under the same job ids.
//
// # What a letter says
//
// A producer can write the headers about a job's origin, and nodes keep them. So a replay writes
// to the source topic of the letter's own topic, jobs for jobs.dlq: nodes write a letter nowhere
// else, also if its job came through a retry topic. The origin is shown, and it names the record
// that completes a truncated letter. If Kafka refuses to show that topic, only this letter is left.
//
// # Failure
//
// Once it is connected, a command retries what it reads and commits for up to 30 seconds, longer
// than a change of leaders or coordinators takes. It commits after each batch, so an error or an interrupt keeps what was
// done before.
//
// # Goroutines
//
// For each topic, one after another, a command that settles starts one goroutine, which follows the
// generations of its group and ends with the topic. The methods of a Client may be called from any goroutine; each
// opens connections of its own and closes them.
//
// # Reasons
//
// One at a time. An offset can't be compared and set. Two commands that each read, add and
// write would lose each other's bitmap, and replay the same letters. So a command that settles
// is a member of the group: a balancer of our own gives all partitions to one member. A commit
// carries the generation, and Kafka refuses one of a generation that is over. A holder reads
// what is settled again in each new generation, and adds what it has settled itself. Admin
// commits (generation −1) would not do: they are refused while the group has a member, and
// exclude nobody otherwise. The price is the join: group.initial.rebalance.delay.ms, 3 s by
// default. Lists and trials join nothing.
//
// Replay writes first, with acks from all replicas, and settles then. A command that dies
// between the two leaves at most a batch (500 letters, 4 MiB) open that was written; those
// jobs are sent again under the same ids. A holder that Kafka took for dead may write its
// batch beside the next one; its commit is refused. An interrupt ends between batches.
//
// A batch is written in order. One that Kafka refuses as too large goes again in halves. Reading
// ends at the last stable offset that was seen at the start, so a replay to the topic's own
// dead letters ends too. Faults that may pass are tried again for 30 s.
//
// The bitmap reaches 8192 offsets from the first open letter. Letters further away are counted
// as out of reach, and left.
//
// What remains: Kafka forgets offsets of a group without members after
// offsets.retention.minutes; then all letters in the log are open again. The topic's id shows
// that a topic was recreated: all of its letters are open. Brokers before 2.8 have no ids. There
// a recreated topic that has grown beyond the old offset counts as settled up to it.
package dlq
