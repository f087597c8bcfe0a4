package deadletter

import (
	"strconv"
	"strings"
	"time"

	"dispatcher/internal/clip"
	"dispatcher/internal/fault"
	"dispatcher/job"
)

// RecordID identifies a record by topic, partition and offset.
type RecordID struct {
	Topic     string
	Partition int
	Offset    int64
}

// String returns topic/partition/offset, which [ParseRecordID] reads.
func (id RecordID) String() string {
	return id.Topic + "/" + strconv.Itoa(id.Partition) + "/" + strconv.FormatInt(id.Offset, 10)
}

// ParseRecordID reads topic/partition/offset. Its error holds the text.
func ParseRecordID(text string) (RecordID, error) {
	parts := strings.Split(text, "/")
	if len(parts) == 3 {
		if id, ok := recordID([]byte(parts[0]), []byte(parts[1]), []byte(parts[2])); ok {
			return id, nil
		}
	}
	return RecordID{}, fault.New("id", clip.Text(text, MaxCodeBytes), "must be topic/partition/offset, such as jobs.dlq/3/1042")
}

func recordID(topic, partition, offset []byte) (RecordID, bool) {
	of, number, at, ok := job.ReadPlace(topic, partition, offset)
	return RecordID{of, number, at}, ok
}

// Origin returns the id of the job's first record, as the headers of a later record have it.
// It returns false if a header is missing or can't be read.
func Origin(rec *job.Record) (RecordID, bool) {
	return recordID(header(rec, job.HeaderOriginalTopic), header(rec, job.HeaderOriginalPartition), header(rec, job.HeaderOriginalOffset))
}

// FirstID is the id of the job's first record: its [Origin], else the record's own id.
func FirstID(rec *job.Record) RecordID {
	if id, known := Origin(rec); known {
		return id
	}
	return RecordID{rec.Topic, rec.Partition, rec.Offset}
}

// FirstWritten is when the job was first written to Kafka.
func FirstWritten(rec *job.Record) time.Time {
	if _, known := Origin(rec); known {
		if at, ok := timeIn(rec, HeaderOriginalTime); ok {
			return at
		}
	}
	return rec.Time
}
