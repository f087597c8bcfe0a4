package consumer

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/clip"
	"dispatcher/job"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The headers of a letter, beside those about its origin in package job. All are
// text. They replace headers of the same name, they are not appended.
const (
	headerOriginalTime  = "x-original-timestamp" // RFC 3339
	headerOriginalSize  = "x-original-size"      // committedIn a value that was cut, in bytes
	headerTruncated     = "x-truncated"
	headerGroup         = "x-consumer-group"
	headerAttempt       = "x-attempt"    // calls so far
	headerFailures      = "x-failures"   // committedIn them, those that count; in tiers only
	headerNotBefore     = "x-not-before" // in tiers only; RFC 3339
	headerFirstFailedAt = "x-first-failed-at"
	headerFailedAt      = "x-failed-at"
	headerErrorClass    = "x-error-class"
	headerErrorCode     = "x-error-code"
	headerErrorMessage  = "x-error-message"
	headerErrorAnswer   = "x-error-answer" // in dead letters only
	headerNode          = "x-node"
)

// message dresses a record as a letter. Key, value and foreign headers stay as
// they are, byte for byte.
func (q *deadLetters) message(l letter, now time.Time) *kgo.Record {
	rec := &l.d.Job.Record
	set := q.headers(l, now)
	headers := make([]kgo.RecordHeader, 0, len(rec.Headers)+len(set))
	for _, h := range rec.Headers {
		if !hasHeader(set, h.Key) && (l.delayed() || !ofOtherHops(h.Key)) {
			headers = append(headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
	}
	return &kgo.Record{Topic: l.topic(), Key: rec.Key, Value: rec.Value, Headers: append(headers, set...)}
}

// ofOtherHops tells whether a header says something that does not hold of a dead
// letter, unless it is said anew.
func ofOtherHops(name string) bool {
	for _, of := range []string{headerTruncated, headerOriginalSize, headerFailures, headerNotBefore, headerErrorAnswer} {
		if strings.EqualFold(name, of) {
			return true
		}
	}
	return false
}

// headers are those the letter gets. What an earlier hop has said about the
// origin holds.
func (q *deadLetters) headers(l letter, now time.Time) []kgo.RecordHeader {
	rec := &l.d.Job.Record
	var set []kgo.RecordHeader
	add := func(name, value string) { set = append(set, kgo.RecordHeader{Key: name, Value: []byte(value)}) }
	if !hasOrigin(rec) {
		add(job.HeaderOriginalTopic, rec.Topic)
		add(job.HeaderOriginalPartition, strconv.Itoa(rec.Partition))
		add(job.HeaderOriginalOffset, strconv.FormatInt(rec.Offset, 10))
		add(headerOriginalTime, stamp(rec.Time))
	}
	add(headerGroup, q.group+"."+rec.Topic)
	add(headerAttempt, strconv.Itoa(l.f.Attempt))
	if l.delayed() {
		add(headerFailures, strconv.Itoa(l.f.Failures))
		add(headerNotBefore, stamp(l.at))
	}
	add(headerNode, clip.Text(q.node, maxCodeBytes))
	if l.f.Class == "" {
		return set
	}
	if !recordHas(rec, headerFirstFailedAt) {
		add(headerFirstFailedAt, stamp(now))
	}
	add(headerFailedAt, stamp(now))
	add(headerErrorClass, string(l.f.Class))
	add(headerErrorCode, clip.Text(l.f.Code, maxCodeBytes))
	add(headerErrorMessage, clip.Text(l.f.Message, maxMessageBytes))
	if l.f.Answer != "" && !l.delayed() {
		add(headerErrorAnswer, clip.Text(l.f.Answer, maxAnswerBytes))
	}
	return set
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// hasOrigin tells whether an earlier hop has said where the record comes from.
// A part of it, or what can't be a place, would lead nowhere.
func hasOrigin(rec *job.Record) bool {
	_, perr := strconv.ParseUint(string(recordHeader(rec, job.HeaderOriginalPartition)), 10, 31)
	_, oerr := strconv.ParseUint(string(recordHeader(rec, job.HeaderOriginalOffset)), 10, 63)
	return topicname.Valid(string(recordHeader(rec, job.HeaderOriginalTopic))) && perr == nil && oerr == nil
}

// originalTime is when an earlier hop says that the record was written first.
func originalTime(rec *job.Record) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, string(recordHeader(rec, headerOriginalTime)))
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

func isOurs(name string) bool {
	switch strings.ToLower(name) {
	case job.HeaderOriginalTopic, job.HeaderOriginalPartition, job.HeaderOriginalOffset,
		headerOriginalTime, headerOriginalSize, headerTruncated, headerGroup, headerAttempt, headerFailures, headerNotBefore, headerFirstFailedAt, headerRedrive,
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
