package offsets

import (
	"fmt"

	"dispatcher/consumer/internal/topicname"
)

// Position is where a partition's log begins and ends, and what the group has
// committed there; offset -1: nothing yet.
type Position struct {
	LogStart, LogEnd int64
	Committed        int64
	Metadata         Metadata     // beside the offset
	Foreign          bool         // that is someone else's
	Topic            topicname.ID // of the log; zero: not known
}

// CommittedTopic is the id of the topic in which the offset was committed; zero: not known.
func (at Position) CommittedTopic() topicname.ID { return at.Metadata.Topic }

// idsKnown tells whether the ids of both topics are: the one in which the offset was
// committed, and that of the log.
func (at Position) idsKnown() bool {
	return at.Topic != (topicname.ID{}) && at.CommittedTopic() != (topicname.ID{})
}

// Recreated tells whether the offset was committed in another topic of that name,
// which was deleted since.
func (at Position) Recreated() bool {
	return at.Committed >= 0 && at.idsKnown() && at.CommittedTopic() != at.Topic
}

// Truncated tells whether the log has lost its end, as by an unclean election: the
// offset was committed in this topic, and lies beyond the end.
func (at Position) Truncated() bool {
	return at.Committed > at.LogEnd && at.idsKnown() && at.CommittedTopic() == at.Topic
}

// Lost tells whether what is committed is not in the log any more, or never was.
func (at Position) Lost() bool {
	return at.Committed >= 0 && (at.Committed < at.LogStart || at.Committed > at.LogEnd) || at.Recreated()
}

// Resolve decides where to begin and which metadata to believe. doubt is empty
// when the commit fits the log. atEnd: without a commit, begin with what comes.
//
// A commit beyond the log's end means that the log has lost its end, or that the
// topic was made anew. The topic's id tells which. Where it is not known, to begin
// with the first record may repeat jobs; anything else may lose some.
func (at Position) Resolve(atEnd bool) (base int64, m Metadata, doubt string) {
	switch {
	case at.Committed < 0 && atEnd:
		return at.LogEnd, Metadata{}, ""
	case at.Committed < 0:
		return at.LogStart, Metadata{}, ""
	case at.Recreated():
		return at.LogStart, Metadata{}, "the offset is of a topic that was deleted: begin with the first record"
	case at.Truncated():
		return at.LogEnd, Metadata{}, "the log was cut: go on at its end"
	case at.Committed > at.LogEnd:
		return at.LogStart, Metadata{}, "begin with the first record"
	}
	base = max(at.Committed, at.LogStart)
	if at.Committed < at.LogStart {
		doubt = "records were deleted before they were worked"
	}
	if at.Foreign {
		return base, Metadata{}, "foreign metadata is ignored"
	}
	if at.Committed+at.Metadata.Span() > at.LogEnd {
		return base, Metadata{}, "marks beyond the end of the log are dropped"
	}
	return base, at.Metadata.From(base - at.Committed), doubt
}

// NewPosition reads the text beside a committed offset. An offset of -1 says that
// nothing is committed.
func NewPosition(logStart, logEnd, committed int64, text string) Position {
	m, err := DecodeMetadata(text)
	return Position{LogStart: logStart, LogEnd: logEnd, Committed: committed, Metadata: m, Foreign: err != nil}
}

// OutOfRange is what follows when the offset that a group has reached is not in the log any
// more: retention has deleted it, or the log is another one.
type OutOfRange string

// The choices.
const (
	RangeEarliest OutOfRange = "earliest" // go on with the first record there is
	RangeLatest   OutOfRange = "latest"   // go on with records that come from now on; those before are given up
	RangeStop     OutOfRange = "stop"     // the consumer ends with an error, so that somebody looks
)

// RangeError ends a consumer that is to stop where its offset is not in the log.
func RangeError(partition int, offset, first, last int64) error {
	return fmt.Errorf("partition %d: offset %d is outside of the log from %d to %d, and out_of_range is stop: "+
		"see what became of the records, then set the group's offset, or out_of_range", partition, offset, first, last)
}

// LostError is RangeError for a position that is [Position.Lost].
func (at Position) LostError(partition int) error {
	if !at.Recreated() {
		return RangeError(partition, at.Committed, at.LogStart, at.LogEnd)
	}
	return fmt.Errorf("partition %d: offset %d was committed in a topic that was deleted and created again, and out_of_range is stop: "+
		"see what became of its jobs, then set the group's offset, or out_of_range", partition, at.Committed)
}
