package deadletter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"dispatcher/consumer/internal/offsets"

	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/clip"
	"dispatcher/internal/fault"
	"dispatcher/job"
)

// headerRedrive counts how often a job has been replayed from the dead letters.
const headerRedrive = "x-redrive"

// maxValueBytes lets any letter be read for its job id.
const maxValueBytes = 1 << 30

// RecordID is where a record lies, written as topic/partition/offset.
type RecordID struct {
	Topic     string
	Partition int
	Offset    int64
}

// String is what [ParseRecordID] reads.
func (id RecordID) String() string {
	return id.Topic + "/" + strconv.Itoa(id.Partition) + "/" + strconv.FormatInt(id.Offset, 10)
}

// ParseRecordID reads topic/partition/offset. Its error names the text.
func ParseRecordID(text string) (RecordID, error) {
	parts := strings.Split(text, "/")
	if len(parts) == 3 {
		if id, ok := recordID([]byte(parts[0]), []byte(parts[1]), []byte(parts[2])); ok {
			return id, nil
		}
	}
	return RecordID{}, fault.New("id", clip.Text(text, MaxCodeBytes), "must be topic/partition/offset, such as jobs.dlq/3/1042")
}

func recordID(topic, partition, offset []byte) (RecordID, bool) {
	p, perr := strconv.ParseUint(string(partition), 10, 31)
	o, oerr := strconv.ParseUint(string(offset), 10, 63)
	return RecordID{string(topic), int(p), int64(o)}, topicname.Valid(string(topic)) && perr == nil && oerr == nil
}

// Letter is one dead letter, read.
type Letter struct {
	ID     RecordID   // where it lies
	Record job.Record // as it lies there, headers and all

	JobID    string   // of the job; where the record is none, its first place
	Origin   RecordID // its first place; without a topic: not known
	Class    Class    // empty: the letter doesn't say
	Code     string   // the provider's, or an HTTP status
	Message  string   // for people; at most 1 KiB
	Answer   string   // beginning of the provider's answer, at most 512 bytes; empty: none was kept
	Attempts int      // calls that left the process
	Redrives int      // times it was replayed
	Node     string   // that gave it up

	FailedAt      time.Time // where the letter doesn't say: when it was written
	FirstFailedAt time.Time // zero: the letter doesn't say

	Truncated    bool  // key, value or headers are not whole
	OriginalSize int64 // bytes of the value before it was cut; 0: not said
	Settled      bool  // replayed or dropped; known to Get only
}

// readLetter reads what the headers say, and leaves the job id out. A header that can't be read counts as
// not there: a letter that somebody wrote by hand is to be seen as well.
func readLetter(rec job.Record) Letter {
	text := func(name string, limit int) string { return clip.Text(string(recordHeader(&rec, name)), limit) }
	l := Letter{
		ID: RecordID{rec.Topic, rec.Partition, rec.Offset}, Record: rec,
		Class: Class(text(headerErrorClass, MaxCodeBytes)), Code: text(headerErrorCode, MaxCodeBytes),
		Message: text(headerErrorMessage, MaxMessageBytes), Node: text(headerNode, MaxCodeBytes), Answer: text(headerErrorAnswer, maxAnswerBytes),
		Attempts: recordCount(&rec, HeaderAttempt), Redrives: recordCount(&rec, headerRedrive),
		FailedAt: rec.Time, OriginalSize: int64(recordCount(&rec, headerOriginalSize)),
		Truncated: string(recordHeader(&rec, headerTruncated)) == "true",
	}
	if t, err := time.Parse(time.RFC3339, text(headerFailedAt, MaxCodeBytes)); err == nil {
		l.FailedAt = t
	}
	if t, err := time.Parse(time.RFC3339, text(headerFirstFailedAt, MaxCodeBytes)); err == nil {
		l.FirstFailedAt = t
	}
	if id, ok := Origin(&rec); ok {
		l.Origin = id
	}
	return l
}

// jobID is what the node called the job that it gave up. What is no job has no
// id but its place.
func (l *Letter) jobID() string {
	if j, err := job.Decode(l.Record, job.Limits{MaxBytes: maxValueBytes}); err == nil {
		return j.ID
	}
	if l.Origin.Topic != "" {
		return l.Origin.String()
	}
	return l.ID.String()
}

// Filter picks dead letters. A zero field picks all.
type Filter struct {
	Topics  []string   // job topics whose dead letters are meant; with IDs they are not asked
	Parked  bool       // of Topics, the parked ones (on_unknown: park), not the dead letters
	IDs     []RecordID // these letters alone
	Classes []Class
	Since   time.Time // failed then or later
	Until   time.Time // failed before
	Key     []byte    // the record's key; nil: any or none
	Limit   int       // the first so many, partition by partition
}

// matches leaves IDs aside, which the session looks up.
func (f *Filter) matches(l *Letter) bool {
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
			return nil, nil, fault.New("topic", clip.Text(t, MaxCodeBytes), "must be 1 to 249 of a-z A-Z 0-9 . _ -, .dlq included")
		}
	}
	if len(topics) == 0 {
		return nil, nil, fault.New("topics", fault.Phrase("[]"), "at least one is needed")
	}
	return topics, partitions, nil
}
