package dlq

import (
	"fmt"
	"slices"
	"time"

	"dispatcher/consumer/deadletter"

	"dispatcher/consumer/internal/offsets"
	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/clip"
	"dispatcher/internal/fault"
)

// Filter picks dead letters. A zero field picks all.
type Filter struct {
	Topics  []string              // job topics whose dead letters are meant; with IDs they are not asked
	Parked  bool                  // of Topics, the parked ones (on_unknown: park), not the dead letters
	IDs     []deadletter.RecordID // these letters alone
	Classes []deadletter.Class
	Since   time.Time // failed then or later
	Until   time.Time // failed before
	Key     []byte    // the record's key; nil: any or none
	Limit   int       // the first so many, partition by partition
}

// matches leaves IDs aside, which the session looks up.
func (f *Filter) matches(l *deadletter.Letter) bool {
	switch {
	case len(f.Classes) > 0 && !slices.Contains(f.Classes, l.Class):
	case !f.Since.IsZero() && l.FailedAt.Before(f.Since):
	case !f.Until.IsZero() && !l.FailedAt.Before(f.Until):
	case f.Key != nil && (l.Record.Key == nil || string(l.Record.Key) != string(f.Key)):
	default:
		return true
	}
	return false
}

// maxIDs is how many letters may be named in one command.
const maxIDs = offsets.Window

// plan is which partitions of which dead-letter topics to read; an empty list
// means all of them.
func (f *Filter) plan() (topics []string, partitions map[string][]int, err error) {
	if len(f.IDs) > maxIDs {
		return nil, nil, fault.New("ids", len(f.IDs), fmt.Sprintf("at most %d can be named at once", maxIDs))
	}
	partitions = map[string][]int{}
	topicOf := topicname.Dead
	if f.Parked {
		topicOf = topicname.Parked
	}
	for _, t := range f.Topics {
		if name := topicOf(t); len(f.IDs) == 0 && !slices.Contains(topics, name) {
			topics = append(topics, name)
		}
	}
	for _, id := range f.IDs {
		if !topicname.HoldsDead(id.Topic) {
			return nil, nil, fault.New("id", id, "is not on a dead-letter topic")
		}
		if !slices.Contains(topics, id.Topic) {
			topics = append(topics, id.Topic)
		}
		if !slices.Contains(partitions[id.Topic], id.Partition) {
			partitions[id.Topic] = append(partitions[id.Topic], id.Partition)
		}
	}
	for _, t := range topics {
		if !topicname.Valid(t) {
			return nil, nil, fault.New("topic", clip.Text(t, deadletter.MaxCodeBytes), "must be 1 to 249 of a-z A-Z 0-9 . _ -, .dlq included")
		}
	}
	if len(topics) == 0 {
		return nil, nil, fault.New("topics", fault.Phrase("[]"), "at least one is needed")
	}
	return topics, partitions, nil
}
