package job

import (
	"cmp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The headers of a dead letter that name its origin. A replayed record keeps them,
// and with them its identity. An origin that can't be read counts as missing.
const (
	HeaderOriginalTopic     = "x-original-topic"
	HeaderOriginalPartition = "x-original-partition"
	HeaderOriginalOffset    = "x-original-offset"
)

// MaxIDBytes is the longest id that a job may state, in bytes. An id of topic, partition
// and offset may be longer.
const MaxIDBytes = 256

// MaxCost is how many units a job may count, whatever the limit says.
const MaxCost = 1_000_000_000

// maxTextBytes bounds the other text headers, which go into logs and calls.
const maxTextBytes = 1024

// Limits are the bounds of [Decode].
type Limits struct {
	MaxBytes   int  // largest value, in bytes; 0: [DefaultMaxBytes]
	IgnoreCost bool // an expression says what jobs cost, so the header may hold anything
}

// DefaultMaxBytes is the largest value of a job unless the limits say otherwise.
const DefaultMaxBytes = 1 << 20

// Decode reads a record. It does not decide whether the job is due. If a header occurs
// more than once, the last one counts; names are case-insensitive.
//
// With an error, the job holds the record and nothing else. Every error is an
// [*Error].
func Decode(r Record, lim Limits) (Job, error) {
	j := Job{Record: r, Cost: 1}
	if err := j.decode(lim); err != nil {
		return Job{Record: r}, err
	}
	return j, nil
}

func (j *Job) decode(lim Limits) error {
	if err := checkValue(j.Value, lim); err != nil {
		return err
	}
	var h headers
	if err := h.read(j.Headers, lim); err != nil {
		return err
	}
	var err error
	if j.Event, err = h.event(&j.Record); err != nil {
		return err
	}
	if j.Event != nil {
		if err := h.fillFrom(j.Event); err != nil {
			return err
		}
	}
	if err := h.fill(j); err != nil {
		return err
	}
	j.ID, j.IDFrom, err = j.identify(&h)
	return err
}

func checkValue(value []byte, lim Limits) error {
	limit := cmp.Or(lim.MaxBytes, DefaultMaxBytes)
	if value == nil {
		return broken("value", "a record without a value is no job")
	}
	if len(value) > limit {
		return broken("value", "larger than "+strconv.Itoa(limit)+" bytes")
	}
	return nil
}

// headers are the values of the known headers; nil: not there.
type headers struct {
	id, lane, cost, notBefore, notAfter, contentType []byte
	traceparent, tracestate                          []byte
	topic, partition, offset                         []byte

	attributes int  // how many headers hold an attribute of a CloudEvent
	isEvent    bool // one of these is a required attribute
}

// slot finds the field for the value of a header; nil: the header is unknown.
func (h *headers) slot(name string) *[]byte {
	switch strings.ToLower(name) {
	case HeaderIdempotencyKey:
		return &h.id
	case HeaderLane:
		return &h.lane
	case HeaderCost:
		return &h.cost
	case HeaderNotBefore:
		return &h.notBefore
	case HeaderNotAfter:
		return &h.notAfter
	case HeaderContentType:
		return &h.contentType
	case HeaderTraceparent:
		return &h.traceparent
	case HeaderTracestate:
		return &h.tracestate
	case HeaderOriginalTopic:
		return &h.topic
	case HeaderOriginalPartition:
		return &h.partition
	case HeaderOriginalOffset:
		return &h.offset
	}
	return nil
}

func (h *headers) read(all []Header, lim Limits) error {
	for i := range all {
		if isAttribute(all[i].Key) {
			h.attributes++
			h.isEvent = h.isEvent || required(all[i].Key[len(ceHeader):])
			continue
		}
		at := h.slot(all[i].Key)
		if at == nil {
			continue
		}
		*at = all[i].Value
		if *at == nil {
			*at = []byte{}
		}
	}
	if lim.IgnoreCost {
		h.cost = nil
	}
	for _, f := range [...]struct {
		name  string
		value []byte
	}{
		{HeaderLane, h.lane},
		{HeaderCost, h.cost},
		{HeaderNotBefore, h.notBefore},
		{HeaderNotAfter, h.notAfter},
		{HeaderContentType, h.contentType},
		{HeaderTraceparent, h.traceparent},
		{HeaderTracestate, h.tracestate},
	} {
		if err := checkText(f.name, f.value, maxTextBytes); err != nil {
			return err
		}
	}
	return nil
}

func checkText(field string, b []byte, limit int) error {
	if len(b) > limit {
		return broken(field, "longer than "+strconv.Itoa(limit)+" bytes")
	}
	if !utf8.Valid(b) {
		return broken(field, "is not UTF-8")
	}
	for _, r := range string(b) {
		// A line separator ends a line for many readers of logs.
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return broken(field, "holds a control character")
		}
	}
	return nil
}

// fill reads everything but the id. The error of a broken header takes precedence over
// an unsupported one, because it stays.
func (h *headers) fill(j *Job) error {
	var err error
	if j.NotBefore, err = instant(HeaderNotBefore, h.notBefore); err != nil {
		return err
	}
	if j.NotAfter, err = instant(HeaderNotAfter, h.notAfter); err != nil {
		return err
	}
	j.Lane = string(h.lane)
	j.ContentType = string(h.contentType)
	j.Traceparent = string(h.traceparent)
	j.Tracestate = string(h.tracestate)
	if h.cost != nil {
		if j.Cost, err = strconv.Atoi(string(h.cost)); err != nil || j.Cost < 1 || j.Cost > MaxCost {
			return unsupported(HeaderCost, "is not a whole number from 1 to "+strconv.Itoa(MaxCost))
		}
	}
	return nil
}

func instant(field string, b []byte) (time.Time, error) {
	if b == nil {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, string(b))
	if err != nil {
		return time.Time{}, broken(field, "is not an RFC 3339 time")
	}
	return t, nil
}
