package job

import "time"

// The headers a producer may set. All are optional UTF-8 text.
const (
	HeaderIdempotencyKey = "idempotency-key"
	HeaderLane           = "lane"
	HeaderCost           = "cost"
	HeaderNotBefore      = "not-before"
	HeaderNotAfter       = "not-after"
	HeaderContentType    = "content-type"
	HeaderTraceparent    = "traceparent"
	HeaderTracestate     = "tracestate"
)

// Header is one header of a record, as it came.
type Header struct {
	Key   string
	Value []byte
}

// Record is a Kafka record, as far as [Decode] reads it.
type Record struct {
	Topic     string
	Partition int
	Offset    int64
	Time      time.Time // the record's timestamp
	Key       []byte    // nil: no key
	Value     []byte
	Headers   []Header
}

// IDSource says where a job's ID was found.
type IDSource int

// The sources of an ID.
const (
	// IDGiven: the idempotency-key header, or source|id of a CloudEvent. It identifies
	// one job on all topics.
	IDGiven IDSource = iota
	// IDValue: the JSON field "id" of the value. It identifies one job of its topic:
	// another topic may count its ids from 1 as well.
	IDValue
	// IDPlace: topic/partition/offset, because the job has no id of its own. A topic
	// that is deleted and created again repeats them.
	IDPlace
)

// Job is one call to the provider, as a producer requests it.
type Job struct {
	// Record is where the job came from. Its Value is the body that is sent.
	Record

	// ID identifies the job for people and, as the idempotency key, for the provider:
	// the idempotency-key header, else of a CloudEvent source|id, else the JSON field
	// "id" of the value, else topic/partition/offset. It stays the same when Kafka
	// delivers the job again.
	ID string
	// IDFrom is where the ID was found, and so among which jobs it is unique.
	IDFrom IDSource

	Lane        string
	Cost        int       // units of the limit one call takes; 1 unless the header says more
	NotBefore   time.Time // zero: at once
	NotAfter    time.Time // zero: never too late
	ContentType string    // empty: unknown
	Traceparent string
	Tracestate  string

	Event *Event // nil: the job is no CloudEvent
}

// Expired tells whether the job's not-after has passed.
func (j *Job) Expired(now time.Time) bool { return !j.NotAfter.IsZero() && now.After(j.NotAfter) }
