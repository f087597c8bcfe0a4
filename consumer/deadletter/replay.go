package deadletter

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"dispatcher/job"
)

// JobOf is the job of a letter, as it first was, and where it first lay.
func JobOf(l *Letter) job.Record {
	headers := make([]job.Header, 0, len(l.Record.Headers)+1)
	for _, h := range l.Record.Headers {
		if !describesFailure(h.Key) {
			headers = append(headers, h)
		}
	}
	headers = append(headers, job.Header{Key: headerRedrive, Value: strconv.AppendInt(nil, min(int64(l.Redrives)+1, math.MaxInt32), 10)})
	return job.Record{Key: l.Record.Key, Value: l.Record.Value, Headers: headers}
}

// describesFailure tells whether a header is about how the job failed, or how it
// was waiting, and not part of what its producer wrote. The count of redrives is
// written anew.
func describesFailure(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case headerOriginalSize, headerTruncated, headerGroup, HeaderAttempt, headerFirstFailedAt, headerFailedAt,
		headerNode, headerRedrive, HeaderNotBefore, HeaderFailures:
		return true
	}
	return strings.HasPrefix(name, "x-error-")
}

// TruncatedFrom tells whether the letter is a part of the record: its topic may have
// been made anew since.
func TruncatedFrom(l *Letter, rec *job.Record) bool {
	written, ok := originalTime(&l.Record)
	sameKey := len(l.Record.Key) == 0 || bytes.Equal(l.Record.Key, rec.Key)
	return ok && written.Equal(rec.Time) && sameKey &&
		int64(len(rec.Value)) == l.OriginalSize && bytes.HasPrefix(rec.Value, l.Record.Value)
}

// Restored is a truncated letter as it would be with the whole record that it is a part of.
func Restored(l *Letter, rec *job.Record) Letter {
	whole := *l
	whole.Truncated, whole.Record.Key, whole.Record.Value = false, rec.Key, rec.Value
	whole.Record.Headers = nil
	for _, h := range rec.Headers {
		if !describesOrigin(h.Key) {
			whole.Record.Headers = append(whole.Record.Headers, h)
		}
	}
	for _, h := range l.Record.Headers {
		if describesOrigin(h.Key) {
			whole.Record.Headers = append(whole.Record.Headers, h)
		}
	}
	return whole
}

func describesOrigin(name string) bool {
	switch strings.ToLower(name) {
	case job.HeaderOriginalTopic, job.HeaderOriginalPartition, job.HeaderOriginalOffset, HeaderOriginalTime:
		return true
	}
	return false
}
