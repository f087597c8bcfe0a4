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

// IDSource says where a job's ID was found.
type IDSource int

// The sources of an ID.
const (
	// IDGiven: the idempotency-key header, or source|id of a CloudEvent. It names
	// one job, whatever topic it lies in.
	IDGiven IDSource = iota
	// IDValue: the JSON field "id" of the value. It names one job of its topic:
	// another topic may count its ids from 1 as well.
	IDValue
	// IDPlace: topic/partition/offset, for the job has no id of its own. A topic
	// that is deleted and created again gives its places again.
	IDPlace
)

// Job is what a producer asked for: one call to the provider.
type Job struct {
	// Record is where the job came from. Its Value is the body that is sent.
	Record

	// ID names the job for people and, as the idempotency key, for the
	// provider: the idempotency-key header, else of a CloudEvent source|id, else
	// the JSON field "id" of the value, else topic/partition/offset. It survives
	// a redelivery.
	ID string
	// IDFrom says where the ID was found, and with that among which jobs it tells
	// this one from the others.
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
