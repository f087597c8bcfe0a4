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
	Topics  []string              // source topics whose dead letters are meant; ignored if there are IDs
	Parked  bool                  // parked jobs of Topics (on_unknown: park) instead of dead letters
	IDs     []deadletter.RecordID // only these letters
	Classes []deadletter.Class
	Since   time.Time // failed then or later
	Until   time.Time // failed before
	Key     []byte    // the record's key; nil: any key or none
	Limit   int       // only the first letters, partition by partition

	After deadletter.RecordID // of List: only the letters behind this one, in the order that List has; no topic: all
}

// matches tells whether the filter picks a letter. It ignores IDs, which the command checks.
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

// maxIDs is how many letters one command may name.
const maxIDs = offsets.Window

// LettersOf is the topic with the dead letters of a source topic, or with its parked jobs.
func LettersOf(topic string, parked bool) string {
	if parked {
		return topicname.Parked(topic)
	}
	return topicname.Dead(topic)
}

// plan returns the dead-letter topics to read, and the partitions of each. A topic without an
// entry means all of its partitions. It refuses a topic that holds jobs.
func (f *Filter) plan(jobTopics []string) (topics []string, partitions map[string][]int, err error) {
	if len(f.IDs) > maxIDs {
		return nil, nil, fault.New("ids", len(f.IDs), fmt.Sprintf("at most %d can be named at once", maxIDs))
	}
	partitions = map[string][]int{}
	for _, t := range f.Topics {
		if name := LettersOf(t, f.Parked); len(f.IDs) == 0 && !slices.Contains(topics, name) {
			topics = append(topics, name)
		}
	}
	for _, id := range f.IDs {
		if _, ok := topicname.DeadOf(id.Topic); !ok {
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
		if slices.Contains(jobTopics, t) {
			return nil, nil, fault.New("topic", t, "is a topic of jobs (kafka.topics or kafka.lanes), so it holds no dead letters; those of its jobs are on "+topicname.Dead(t))
		}
	}
	if f.After.Topic != "" {
		at := slices.Index(topics, f.After.Topic)
		if at < 0 {
			return nil, nil, fault.New("after", f.After, "must be a letter of these topics")
		}
		topics = topics[at:]
	}
	if len(topics) == 0 {
		return nil, nil, fault.New("topics", fault.Phrase("[]"), "at least one is needed")
	}
	return topics, partitions, nil
}
