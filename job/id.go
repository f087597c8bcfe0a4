package job

import "strconv"

// identify finds the job's id: the header, else the value's "id", else where
// the record was first written.
func identify(r *Record, h *headers) (string, error) {
	if h.id != nil {
		if len(h.id) == 0 {
			return "", broken(HeaderIdempotencyKey, "is empty")
		}
		if err := checkText(HeaderIdempotencyKey, h.id, MaxIDBytes); err != nil {
			return "", err
		}
		return string(h.id), nil
	}
	id, err := scanID(r.Value)
	if err != nil || id != "" {
		return id, err
	}
	return origin(r, h)
}

// origin names the record by its place. A replayed record is named by the
// place it first had, so that a provider recognises it.
func origin(r *Record, h *headers) (string, error) {
	if h.topic == nil || h.partition == nil || h.offset == nil {
		return place(r.Topic, int64(r.Partition), r.Offset), nil
	}
	if err := checkText(HeaderOriginalTopic, h.topic, MaxIDBytes-40); err != nil {
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
	var room [MaxIDBytes]byte
	b := append(room[:0], topic...)
	b = append(b, '/')
	b = strconv.AppendInt(b, partition, 10)
	b = append(b, '/')
	b = strconv.AppendInt(b, offset, 10)
	return string(b)
}
