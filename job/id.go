package job

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// identify finds the job's id: the header, else that of the CloudEvent, else the
// value's "id", else the record's place.
func identify(r *Record, h *headers, e *Event) (id string, from IDSource, err error) {
	if id, err = given(h, e); id != "" || err != nil {
		return id, IDGiven, err
	}
	if mayHoldID(r.Value, h.contentType) {
		if id, err = scanID(r.Value); id != "" || err != nil {
			return id, IDValue, err
		}
	}
	id, err = origin(r, h)
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
func mayHoldID(value, contentType []byte) bool {
	if len(contentType) > 0 && !mayBeText(contentType) {
		return false
	}
	if len(value) == 0 || value[0] > ' ' {
		return true
	}
	return len(contentType) > 0 || json.Valid(value)
}

// mayBeText: text/..., and all types whose name holds JSON.
func mayBeText(contentType []byte) bool {
	const text = "text/"
	if len(contentType) >= len(text) && bytes.EqualFold(contentType[:len(text)], []byte(text)) {
		return true
	}
	media, _, _ := bytes.Cut(contentType, []byte{';'})
	for i := 0; i+4 <= len(media); i++ {
		if bytes.EqualFold(media[i:i+4], []byte("json")) {
			return true
		}
	}
	return false
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
	var buffer [maxTopicBytes + 40]byte
	b := append(buffer[:0], topic...)
	b = append(b, '/')
	b = strconv.AppendInt(b, partition, 10)
	b = append(b, '/')
	b = strconv.AppendInt(b, offset, 10)
	return string(b)
}
