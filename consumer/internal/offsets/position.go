package offsets

import (
	"fmt"

	"dispatcher/consumer/internal/topicname"
)

// Position is where a partition's log begins and ends, and the offset that the group has
// committed in it.
type Position struct {
	LogStart, LogEnd int64
	Committed        int64        // -1: nothing is committed
	Metadata         Metadata     // beside the committed offset
	Foreign          bool         // the metadata is in another format
	Topic            topicname.ID // of the log; zero: not known
}

// CommittedTopic is the id of the topic in which the offset was committed; zero: not known.
func (at Position) CommittedTopic() topicname.ID { return at.Metadata.Topic }

// idsKnown tells whether both topics are known: that of the commit and that of the log.
func (at Position) idsKnown() bool {
	return at.Topic != (topicname.ID{}) && at.CommittedTopic() != (topicname.ID{})
}

// Recreated tells whether the offset was committed in a topic of the same name that was
// deleted since.
func (at Position) Recreated() bool {
	return at.Committed >= 0 && at.idsKnown() && at.CommittedTopic() != at.Topic
}

// Truncated tells whether the log has lost its end, as by an unclean election: the offset was
// committed in this topic, and lies beyond the log's end.
func (at Position) Truncated() bool {
	return at.Committed > at.LogEnd && at.idsKnown() && at.CommittedTopic() == at.Topic
}

// Lost tells whether the committed offset is not in the log.
func (at Position) Lost() bool {
	return at.Committed >= 0 && (at.Committed < at.LogStart || at.Committed > at.LogEnd) || at.Recreated()
}

// Resolve decides where to begin and which metadata holds. problem is empty when the commit
// fits the log. atEnd: without a commit, begin at the end of the log.
//
// A commit beyond the log's end means that the log was truncated or the topic recreated. The
// topic's id tells which. If the id is not known, Resolve begins with the first record. That
// may repeat jobs; any other choice may lose some.
func (at Position) Resolve(atEnd bool) (base int64, m Metadata, problem string) {
	switch {
	case at.Committed < 0 && atEnd:
		return at.LogEnd, Metadata{}, ""
	case at.Committed < 0:
		return at.LogStart, Metadata{}, ""
	case at.Recreated():
		return at.LogStart, Metadata{}, "the offset is of a topic that was deleted: begin with the first record"
	case at.Truncated():
		return at.LogEnd, Metadata{}, "the log was truncated: continue at its end"
	case at.Committed > at.LogEnd:
		return at.LogStart, Metadata{}, "begin with the first record"
	}
	base = max(at.Committed, at.LogStart)
	if at.Committed < at.LogStart {
		problem = "records were deleted before they were worked"
	}
	if at.Foreign {
		return base, Metadata{}, "foreign metadata is ignored"
	}
	if at.Committed+at.Metadata.Span() > at.LogEnd {
		return base, Metadata{}, "metadata beyond the end of the log is ignored"
	}
	return base, at.Metadata.From(base - at.Committed), problem
}

// NewPosition decodes the metadata beside a committed offset. An offset of -1 means that
// nothing is committed.
func NewPosition(logStart, logEnd, committed int64, metadata string) Position {
	m, err := DecodeMetadata(metadata)
	return Position{LogStart: logStart, LogEnd: logEnd, Committed: committed, Metadata: m, Foreign: err != nil}
}

// OutOfRange is what a consumer does when its group's offset is not in the log: retention has
// deleted the records, or the log is another one.
type OutOfRange string

// The choices.
const (
	RangeEarliest OutOfRange = "earliest" // continue with the first record
	RangeLatest   OutOfRange = "latest"   // continue with new records, and give up those before
	RangeStop     OutOfRange = "stop"     // end the consumer with an error
)

// RangeError ends a consumer whose offset is not in the log, with [RangeStop].
func RangeError(partition int, offset, first, last int64) error {
	return fmt.Errorf("partition %d: offset %d is outside of the log from %d to %d, and out_of_range is stop: "+
		"see what became of the records, then set the group's offset, or out_of_range", partition, offset, first, last)
}

// LostError is the [RangeError] of a position that is [Position.Lost].
func (at Position) LostError(partition int) error {
	if !at.Recreated() {
		return RangeError(partition, at.Committed, at.LogStart, at.LogEnd)
	}
	return fmt.Errorf("partition %d: offset %d was committed in a topic that was deleted and created again, and out_of_range is stop: "+
		"see what became of its jobs, then set the group's offset, or out_of_range", partition, at.Committed)
}
