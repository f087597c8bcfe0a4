package deadletter

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"dispatcher/consumer/internal/offsets"
	"dispatcher/internal/clip"
	"dispatcher/job"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The headers of a letter, beside those about its origin in package job. All are
// text. They replace headers of the same name, they are not appended.
const (
	HeaderOriginalTime  = "x-original-timestamp" // RFC 3339
	headerOriginalSize  = "x-original-size"      // of a value that was cut, in bytes
	headerTruncated     = "x-truncated"
	headerGroup         = "x-consumer-group"
	HeaderAttempt       = "x-attempt"    // calls so far
	HeaderFailures      = "x-failures"   // of them, those that count; in tiers only
	HeaderNotBefore     = "x-not-before" // in tiers only; RFC 3339
	headerFirstFailedAt = "x-first-failed-at"
	headerFailedAt      = "x-failed-at"
	headerErrorClass    = "x-error-class"
	headerErrorCode     = "x-error-code"
	headerErrorMessage  = "x-error-message"
	headerErrorAnswer   = "x-error-answer" // in dead letters only
	headerNode          = "x-node"
)

// Note is what is written beside a job that goes to the dead letters or to a retry
// topic.
type Note struct {
	Topic   string    // where the record goes
	Group   string    // of the consumer that writes it
	Node    string    // likewise
	Failure Failure   // without a class: nothing has failed
	Due     time.Time // in a retry topic, when the job is due; zero: a dead letter
}

func (n *Note) delayed() bool { return !n.Due.IsZero() }

// Compose makes the record of a note. Key, value and foreign headers of the job's record
// stay as they are, byte for byte.
func Compose(rec *job.Record, n *Note, now time.Time) *kgo.Record {
	set := n.headers(rec, now)
	headers := make([]kgo.RecordHeader, 0, len(rec.Headers)+len(set))
	for _, h := range rec.Headers {
		if !hasHeader(set, h.Key) && (n.delayed() || !notInherited(h.Key)) {
			headers = append(headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
	}
	return &kgo.Record{Topic: n.Topic, Key: rec.Key, Value: rec.Value, Headers: append(headers, set...)}
}

// notInherited tells whether a header of an earlier record does not hold of a dead
// letter, unless it is written again.
func notInherited(name string) bool {
	for _, of := range []string{headerTruncated, headerOriginalSize, HeaderFailures, HeaderNotBefore, headerErrorAnswer} {
		if strings.EqualFold(name, of) {
			return true
		}
	}
	return false
}

// headers are those that the note adds. An origin that an earlier record names stays.
func (n *Note) headers(rec *job.Record, now time.Time) []kgo.RecordHeader {
	var set []kgo.RecordHeader
	add := func(name, value string) { set = append(set, kgo.RecordHeader{Key: name, Value: []byte(value)}) }
	if _, known := Origin(rec); !known {
		add(job.HeaderOriginalTopic, rec.Topic)
		add(job.HeaderOriginalPartition, strconv.Itoa(rec.Partition))
		add(job.HeaderOriginalOffset, strconv.FormatInt(rec.Offset, 10))
		add(HeaderOriginalTime, stamp(rec.Time))
	}
	add(headerGroup, n.Group+"."+rec.Topic)
	f := &n.Failure
	add(HeaderAttempt, strconv.Itoa(f.Attempt))
	if n.delayed() {
		add(HeaderFailures, strconv.Itoa(f.Failures))
		add(HeaderNotBefore, stamp(n.Due))
	}
	add(headerNode, clip.Text(n.Node, MaxCodeBytes))
	if f.Class == "" {
		return set
	}
	if !recordHas(rec, headerFirstFailedAt) {
		add(headerFirstFailedAt, stamp(now))
	}
	add(headerFailedAt, stamp(now))
	add(headerErrorClass, string(f.Class))
	add(headerErrorCode, clip.Text(f.Code, MaxCodeBytes))
	add(headerErrorMessage, clip.Text(f.Message, MaxMessageBytes))
	if f.Answer != "" && !n.delayed() {
		add(headerErrorAnswer, clip.Text(f.Answer, maxAnswerBytes))
	}
	return set
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// Origin is the place that an earlier record names as the job's first; false: none does.
// A part of a place, or what can't be one, does not count.
func Origin(rec *job.Record) (RecordID, bool) {
	return recordID(recordHeader(rec, job.HeaderOriginalTopic), recordHeader(rec, job.HeaderOriginalPartition),
		recordHeader(rec, job.HeaderOriginalOffset))
}

// FirstWritten is when the job was first written to Kafka, as its record says.
func FirstWritten(rec *job.Record) time.Time {
	if _, known := Origin(rec); known {
		if at, ok := originalTime(rec); ok {
			return at
		}
	}
	return rec.Time
}

// FirstID is where the job was first written.
func FirstID(rec *job.Record) RecordID {
	if id, known := Origin(rec); known {
		return id
	}
	return RecordID{rec.Topic, rec.Partition, rec.Offset}
}

// Redrives is how often the job was replayed from the dead letters.
func Redrives(rec *job.Record) int { return recordCount(rec, headerRedrive) }

// Retry is what the record of a retry topic says beside its job. Times are zero where
// the record doesn't say.
type Retry struct {
	Attempts offsets.Attempts
	Due      time.Time // of the job
	Written  time.Time // of the job, first
}

// ReadRetry reads the record of a retry topic.
func ReadRetry(rec *job.Record) Retry {
	r := Retry{Attempts: offsets.Attempts{Calls: recordCount(rec, HeaderAttempt), Failures: recordCount(rec, HeaderFailures)}}
	if at, err := time.Parse(time.RFC3339, string(recordHeader(rec, HeaderNotBefore))); err == nil {
		r.Due = at
	}
	if at, ok := originalTime(rec); ok {
		r.Written = at
	}
	return r
}

// originalTime is when an earlier hop says that the record was written first.
func originalTime(rec *job.Record) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, string(recordHeader(rec, HeaderOriginalTime)))
	return at, err == nil
}

// recordHeader is the value of the last header of a name, as Decode has it.
func recordHeader(rec *job.Record, name string) []byte {
	for _, h := range slices.Backward(rec.Headers) {
		if strings.EqualFold(h.Key, name) {
			return h.Value
		}
	}
	return nil
}

// recordCount reads a header that counts something; 0: there is none that can be
// read.
func recordCount(rec *job.Record, name string) int {
	n, err := strconv.ParseUint(string(recordHeader(rec, name)), 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

func recordHas(rec *job.Record, name string) bool {
	for i := range rec.Headers {
		if strings.EqualFold(rec.Headers[i].Key, name) {
			return true
		}
	}
	return false
}

func isOwnHeader(name string) bool {
	switch strings.ToLower(name) {
	case job.HeaderOriginalTopic, job.HeaderOriginalPartition, job.HeaderOriginalOffset,
		HeaderOriginalTime, headerOriginalSize, headerTruncated, headerGroup, HeaderAttempt, HeaderFailures, HeaderNotBefore, headerFirstFailedAt, headerRedrive,
		headerFailedAt, headerErrorClass, headerErrorCode, headerErrorMessage, headerErrorAnswer, headerNode:
		return true
	}
	return false
}

func hasHeader(headers []kgo.RecordHeader, name string) bool {
	for _, h := range headers {
		if strings.EqualFold(h.Key, name) {
			return true
		}
	}
	return false
}
