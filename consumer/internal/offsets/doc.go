// Package offsets tracks which offsets of a partition are complete, and encodes what a commit
// stores about them.
//
// A [Tracker] follows one partition during one assignment: jobs complete in any order, and
// the tracker knows the lowest offset that is not complete, the one to commit. [Metadata] is
// the text beside a committed offset: the topic's id, the [Bitmap] of offsets that are complete
// beyond the committed one, and the attempts of open jobs. So a new owner repeats neither
// completed jobs nor attempts. The formats are frozen.
//
// A [Position] is a committed offset beside the log's start and end. [Position.Resolve] decides
// where a partition begins: at the committed offset, or elsewhere when the log was truncated,
// deleted by retention or recreated.
//
// The package does no I/O, knows no time, holds no lock and starts no goroutine. Packages
// group and dlq read and commit offsets.
//
// # Reasons
//
// The tracker sees 8192 offsets from the committed one on. Fetching pauses at 6144: by then
// one job has been stuck for long.
//
// The longest v2 text is a bit set over 8192 offsets: 3 + ⌈(16 + 1 + 1024) · 8 / 6⌉ = 1391
// characters. v3 and brokers allow 4096 characters. A broker that refuses the length gets the
// commit without the attempts, then without metadata. A node of an older version takes a newer
// format for foreign, and repeats jobs that were complete behind a stuck one.
//
// A failure that counts goes into the next commit, so the partition's next owner continues the
// count, in every order. A crash forgets at most the failures since the last commit. A failure
// whose attribution is pending is forgotten when the job changes hands. With brokers before
// 2.8, or where the broker refuses the length, the count starts from zero.
//
// On assignment the committed offset is compared with the log and the topic's id:
//
//	committed offset         id in the commit       the group begins
//	within the log           the topic's, or none   at the offset; a bitmap beyond the log's end is dropped
//	before the beginning     the topic's, or none   as OutOfRange says; the bitmap behind the beginning holds
//	beyond the end           the topic's            at the end: the log was cut, as by an unclean election
//	beyond the end           none, or not known     as OutOfRange says, with earliest at the first record
//	anywhere                 another one            as OutOfRange says, with earliest at the first record
//
// With stop the node ends in each of the last four cases. A commit without the id is repeated
// with it as soon as the partition is assigned. A log that was cut, and has grown beyond the
// offset again before anyone looked, can't be recognised by this.
package offsets
