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

// Record is a job still in Kafka's clothes: everything [Decode] reads.
type Record struct {
	Topic     string
	Partition int
	Offset    int64
	Time      time.Time // the record's timestamp
	Key       []byte    // nil: no key
	Value     []byte
	Headers   []Header
}

// Job is what a producer asked for: one call to the provider.
type Job struct {
	// Record is where the job came from. Its Value is the body that is sent.
	Record

	// ID names the job for people and, as the idempotency key, for the
	// provider: the idempotency-key header, else of a CloudEvent source|id, else
	// the JSON field "id" of the value, else topic/partition/offset. It survives
	// a redelivery.
	ID string
	// Placed: the ID is topic/partition/offset, for the job has none of its own.
	// A topic that is made anew gives its places again.
	Placed bool

	Lane        string
	Cost        int       // units of the limit one call takes; 1 unless the header says more
	NotBefore   time.Time // zero: at once
	NotAfter    time.Time // zero: never too late
	ContentType string    // empty: unknown
	Traceparent string
	Tracestate  string

	Event *Event // nil: the job is no CloudEvent
}
