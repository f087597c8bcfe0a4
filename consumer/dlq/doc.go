// Package dlq has the commands of operators for dead letters and parked jobs. A [Client] lists
// the open letters, and settles each by replaying or dropping it. Nodes write letters and never
// read them; package deadletter defines what a letter holds.
//
// # What is settled
//
// Kafka remembers which letters are settled, as it does for jobs: by the committed offset of
// the group <group>.<topic>.dlq, and by the bitmap of completed offsets in its metadata, in
// format v1 (see package offsets). The bitmap covers 8192 offsets from the first open letter
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
// replay the same letter. If a command dies between writing a batch and its commit, those
// letters stay open. They are replayed again, under the same job ids.
//
// # Failure
//
// A command retries a request for up to 30 seconds, longer than a change of leaders or
// coordinators takes. It commits after each batch, so an error or an interrupt keeps what was
// done before.
//
// # Goroutines
//
// A command that settles starts one goroutine, which follows the generations of its group and
// ends with the command. The methods of a Client may be called from any goroutine; each
// opens connections of its own and closes them.
package dlq
