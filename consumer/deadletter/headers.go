package deadletter

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"dispatcher/job"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The headers of a dead letter, beside those about its origin in package job. All are text.
const (
	HeaderOriginalTime  = "x-original-timestamp" // RFC 3339
	headerOriginalSize  = "x-original-size"      // of a value that was truncated, in bytes
	headerTruncated     = "x-truncated"
	headerGroup         = "x-consumer-group"
	HeaderAttempt       = "x-attempt"    // calls so far
	HeaderFailures      = "x-failures"   // calls that count as failures; on retry topics only
	HeaderNotBefore     = "x-not-before" // RFC 3339; on retry topics only
	headerFirstFailedAt = "x-first-failed-at"
	headerFailedAt      = "x-failed-at"
	headerErrorClass    = "x-error-class"
	headerErrorCode     = "x-error-code"
	headerErrorMessage  = "x-error-message"
	headerErrorAnswer   = "x-error-answer" // in dead letters only
	headerNode          = "x-node"
	headerRedrive       = "x-redrive" // how often the job was replayed
)

// isOwnHeader tells whether dispatcher writes a header of that name.
func isOwnHeader(name string) bool {
	switch strings.ToLower(name) {
	case job.HeaderOriginalTopic, job.HeaderOriginalPartition, job.HeaderOriginalOffset,
		HeaderOriginalTime, headerOriginalSize, headerTruncated, headerGroup, HeaderAttempt, HeaderFailures, HeaderNotBefore, headerFirstFailedAt, headerRedrive,
		headerFailedAt, headerErrorClass, headerErrorCode, headerErrorMessage, headerErrorAnswer, headerNode:
		return true
	}
	return false
}

// notInherited tells whether a dead letter drops that header of the record it is made from,
// unless it writes the header itself.
func notInherited(name string) bool {
	switch strings.ToLower(name) {
	case headerTruncated, headerOriginalSize, HeaderFailures, HeaderNotBefore, headerErrorAnswer:
		return true
	}
	return false
}

// describesFailure tells whether a header describes how the job failed or waited, so that a
// replay drops it. A replay writes a new count of redrives.
func describesFailure(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case headerOriginalSize, headerTruncated, headerGroup, HeaderAttempt, headerFirstFailedAt, headerFailedAt,
		headerNode, headerRedrive, HeaderNotBefore, HeaderFailures:
		return true
	}
	return strings.HasPrefix(name, "x-error-")
}

func describesOrigin(name string) bool {
	switch strings.ToLower(name) {
	case job.HeaderOriginalTopic, job.HeaderOriginalPartition, job.HeaderOriginalOffset, HeaderOriginalTime:
		return true
	}
	return false
}

// header returns the value of the last header of a name, as job.Decode does.
func header(rec *job.Record, name string) []byte {
	for _, h := range slices.Backward(rec.Headers) {
		if strings.EqualFold(h.Key, name) {
			return h.Value
		}
	}
	return nil
}

// count reads a header that holds a number; 0 if it is missing or can't be read.
func count(rec *job.Record, name string) int {
	n, err := strconv.ParseUint(string(header(rec, name)), 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// timeIn reads a header that holds a time. It returns false if it is missing or can't be read.
func timeIn(rec *job.Record, name string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, string(header(rec, name)))
	return at, err == nil
}

// stamp is the form in which headers hold times.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func hasHeader(headers []kgo.RecordHeader, name string) bool {
	return slices.ContainsFunc(headers, func(h kgo.RecordHeader) bool { return strings.EqualFold(h.Key, name) })
}
