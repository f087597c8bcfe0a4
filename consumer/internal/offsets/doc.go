// Package offsets knows which offsets of a partition are complete, and what a commit says
// about it.
//
// A [Tracker] follows one partition during one assignment. [Metadata] is the text beside a
// committed offset: the topic's id, the bitmap of completed offsets beyond the committed one,
// and the attempts of open jobs. Its formats are frozen. A [Position] decides where a
// partition begins.
//
// The package does no I/O, knows no time and holds no lock.
package offsets
