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
package offsets
