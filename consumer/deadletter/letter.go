package deadletter

import (
	"time"

	"dispatcher/internal/clip"
	"dispatcher/job"
)

// maxValueBytes is a limit that no dead letter reaches, for decoding its job id.
const maxValueBytes = 1 << 30

// Letter is a dead letter with its headers decoded.
type Letter struct {
	ID     RecordID
	Record job.Record // as it is on the dead-letter topic, with all headers

	JobID    string   // of the job; if the record is no valid job, the id of its first record
	Origin   RecordID // of the job's first record; without a topic: not known
	Class    Class    // empty: the letter does not say
	Code     string   // the provider's, or an HTTP status
	Message  string   // for people; at most 1 KiB
	Answer   string   // beginning of the provider's answer, at most 512 bytes; empty: none was kept
	Attempts int      // calls that left the process
	Redrives int      // how often it was replayed
	Node     string   // that wrote the letter

	FailedAt      time.Time // if the letter does not say: when it was written
	FirstFailedAt time.Time // zero: the letter does not say

	Truncated    bool  // key, value or headers are incomplete
	OriginalSize int64 // bytes of the value before it was truncated; 0: the letter does not say
	Settled      bool  // replayed or dropped; only dlq's Get sets it
}

// ReadLetter decodes the headers of a record, and leaves JobID empty. A header that can't be
// read counts as missing, so that operators also see letters that somebody wrote by hand.
func ReadLetter(rec job.Record) Letter {
	text := func(name string, limit int) string { return clip.Text(string(header(&rec, name)), limit) }
	l := Letter{
		ID: RecordID{rec.Topic, rec.Partition, rec.Offset}, Record: rec,
		Class: Class(text(headerErrorClass, MaxCodeBytes)), Code: text(headerErrorCode, MaxCodeBytes),
		Message: text(headerErrorMessage, MaxMessageBytes), Node: text(headerNode, MaxCodeBytes), Answer: text(headerErrorAnswer, maxAnswerBytes),
		Attempts: count(&rec, HeaderAttempt), Redrives: Redrives(&rec),
		FailedAt: rec.Time, OriginalSize: int64(count(&rec, headerOriginalSize)),
		Truncated: string(header(&rec, headerTruncated)) == "true",
	}
	if at, ok := timeIn(&rec, headerFailedAt); ok {
		l.FailedAt = at
	}
	if at, ok := timeIn(&rec, headerFirstFailedAt); ok {
		l.FirstFailedAt = at
	}
	if id, ok := Origin(&rec); ok {
		l.Origin = id
	}
	return l
}

// FindJobID returns the id that the node used for the job. A record that is no valid job has
// the id of its first record. A header cost may hold anything: with the setting cost a node ignores it.
func (l *Letter) FindJobID() string {
	if j, err := job.Decode(l.Record, job.Limits{MaxBytes: maxValueBytes, IgnoreCost: true}); err == nil {
		return j.ID
	}
	if l.Origin.Topic != "" {
		return l.Origin.String()
	}
	return l.ID.String()
}
