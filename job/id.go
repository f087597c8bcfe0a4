package job

import (
	"encoding/json"
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
	id, err = origin(&j.Record, h)
	return id, IDPlace, err
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
func origin(r *Record, h *headers) (string, error) {
	if h.topic == nil || h.partition == nil || h.offset == nil {
		return place(r.Topic, int64(r.Partition), r.Offset), nil
	}
	if err := checkText(HeaderOriginalTopic, h.topic, maxTopicBytes); err != nil {
		return "", err
	}
	if len(h.topic) == 0 {
		return "", broken(HeaderOriginalTopic, "is empty")
	}
	partition, err := strconv.ParseUint(string(h.partition), 10, 31)
	if err != nil {
		return "", broken(HeaderOriginalPartition, "is not a partition's number")
	}
	offset, err := strconv.ParseUint(string(h.offset), 10, 63)
	if err != nil {
		return "", broken(HeaderOriginalOffset, "is not an offset")
	}
	return place(string(h.topic), int64(partition), int64(offset)), nil
}

func place(topic string, partition, offset int64) string {
	return topic + "/" + strconv.FormatInt(partition, 10) + "/" + strconv.FormatInt(offset, 10)
}
