package deadletter

import (
	"bytes"
	"math"
	"strconv"

	"dispatcher/job"
)

// Redrives is how often the job was replayed from the dead letters.
func Redrives(rec *job.Record) int { return count(rec, headerRedrive) }

// JobOf makes the job that a replay of the letter writes: the original key, value and headers,
// with the headers about the origin, and the number of redrives.
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

// TruncatedFrom tells whether the letter is a part of the record. If the source topic was
// recreated, the record at the letter's origin is another one.
func TruncatedFrom(l *Letter, rec *job.Record) bool {
	written, ok := timeIn(&l.Record, HeaderOriginalTime)
	sameKey := len(l.Record.Key) == 0 || bytes.Equal(l.Record.Key, rec.Key)
	return ok && written.Equal(rec.Time) && sameKey &&
		int64(len(rec.Value)) == l.OriginalSize && bytes.HasPrefix(rec.Value, l.Record.Value)
}

// Restored completes a truncated letter with the record that it was truncated from.
func Restored(l *Letter, rec *job.Record) Letter {
	full := *l
	full.Truncated, full.Record.Key, full.Record.Value = false, rec.Key, rec.Value
	full.Record.Headers = nil
	for _, h := range rec.Headers {
		if !describesOrigin(h.Key) {
			full.Record.Headers = append(full.Record.Headers, h)
		}
	}
	for _, h := range l.Record.Headers {
		if describesOrigin(h.Key) {
			full.Record.Headers = append(full.Record.Headers, h)
		}
	}
	return full
}
