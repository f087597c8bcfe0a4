package job

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// identify finds the job's id: the header, else that of the CloudEvent, else the
// value's "id", else the record's place.
func (j *Job) identify(h *headers) (id string, from IDSource, err error) {
	if id, err = given(h, j.Event); id != "" || err != nil {
		return id, IDGiven, err
	}
	if mayHoldID(j.Value, j.ContentType) {
		if id, err = scanID(j.Value); id != "" || err != nil {
			return id, IDValue, err
		}
	}
	return origin(&j.Record, h), IDPlace, nil
}

// given is the id from the header or the CloudEvent; empty: there is none.
func given(h *headers, e *Event) (string, error) {
	if h.id != nil {
		if len(h.id) == 0 {
			return "", broken(HeaderIdempotencyKey, "is empty")
		}
		if err := checkText(HeaderIdempotencyKey, h.id, MaxIDBytes); err != nil {
			return "", err
		}
		return string(h.id), nil
	}
	if e != nil {
		return e.id(), nil
	}
	return "", nil
}

// mayHoldID tells whether a value is searched for an id. A declared type other than
// JSON or text is trusted: some protobuf messages look like JSON after a line break,
// because their first bytes are a field's tag (10) and its length. If no type is
// declared, a value that begins with space counts as such a message unless the whole
// value is JSON.
func mayHoldID(value []byte, contentType string) bool {
	if contentType != "" && !mayBeText(contentType) {
		return false
	}
	if len(value) == 0 || value[0] > ' ' {
		return true
	}
	return contentType != "" || json.Valid(value)
}

// mayBeText: text/..., and all types whose name holds JSON.
func mayBeText(contentType string) bool {
	media := mediaType(contentType)
	return strings.HasPrefix(media, "text/") || strings.Contains(media, "json")
}

// origin is the id of a record without one: topic, partition and offset. A replayed
// record keeps its first ones, so that a provider recognises it.
func origin(r *Record, h *headers) string {
	if topic, partition, offset, ok := ReadPlace(h.topic, h.partition, h.offset); ok {
		return place(topic, int64(partition), offset)
	}
	return place(r.Topic, int64(r.Partition), r.Offset)
}

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// IsTopic tells whether Kafka accepts a name for a topic.
func IsTopic(name string) bool { return topicName.MatchString(name) && name != "." && name != ".." }

// ReadPlace reads a record's place from headers or an id. It returns false if a part is missing or can't be read.
func ReadPlace(topic, partition, offset []byte) (of string, number int, at int64, ok bool) {
	if !IsTopic(string(topic)) { // as for each new job: errors of the numbers would cost two allocations
		return "", 0, 0, false
	}
	p, perr := strconv.ParseUint(string(partition), 10, 31)
	o, oerr := strconv.ParseUint(string(offset), 10, 63)
	return string(topic), int(p), int64(o), perr == nil && oerr == nil
}

func place(topic string, partition, offset int64) string {
	var buf [128]byte // without another allocation, unless the topic's name is long
	b := append(buf[:0], topic...)
	b = strconv.AppendInt(append(b, '/'), partition, 10)
	b = strconv.AppendInt(append(b, '/'), offset, 10)
	return string(b)
}
