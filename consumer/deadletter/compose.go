package deadletter

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"dispatcher/internal/clip"
	"dispatcher/job"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Note is what a record says beside its job, on a dead-letter topic or a retry topic.
type Note struct {
	Topic   string    // of the record
	Group   string    // prefix of the group of the consumer that writes it
	Node    string    // that writes it
	Failure Failure   // without a class: nothing has failed
	Due     time.Time // when the job is due, on a retry topic; zero: a dead letter
}

func (n *Note) delayed() bool { return !n.Due.IsZero() }

// Compose makes the record of a note. Key, value and foreign headers of the job's record stay
// as they are, byte for byte.
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

// headers returns the headers that the note adds. The origin of an earlier record stays. One without a time gets that of
// the record: [FirstWritten] stays the same.
func (n *Note) headers(rec *job.Record, now time.Time) []kgo.RecordHeader {
	var set []kgo.RecordHeader
	add := func(name, value string) { set = append(set, kgo.RecordHeader{Key: name, Value: []byte(value)}) }
	_, known := Origin(rec)
	if !known {
		add(job.HeaderOriginalTopic, rec.Topic)
		add(job.HeaderOriginalPartition, strconv.Itoa(rec.Partition))
		add(job.HeaderOriginalOffset, strconv.FormatInt(rec.Offset, 10))
	}
	if _, dated := timeIn(rec, HeaderOriginalTime); !known || !dated {
		add(HeaderOriginalTime, stamp(rec.Time))
	}
	add(headerGroup, n.Group+"."+rec.Topic)
	f := &n.Failure
	add(HeaderAttempt, strconv.Itoa(f.Calls))
	if n.delayed() {
		add(HeaderFailures, strconv.Itoa(f.Failures))
		add(HeaderNotBefore, stamp(n.Due))
	}
	add(headerNode, clip.Text(n.Node, MaxCodeBytes))
	if f.Class == "" {
		return set
	}
	if !slices.ContainsFunc(rec.Headers, func(h job.Header) bool { return strings.EqualFold(h.Key, headerFirstFailedAt) }) {
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
