package job

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a CloudEvent. Intermediaries forward events of up to 64 KiB; nearly all of
// that is data, and attributes become headers.
const (
	maxAttributes     = 64
	maxAttributeBytes = 16 << 10 // names and values of one event, together
	maxNameBytes      = 64       // the specification advises 20
)

// The attributes that are used here. partitionkey is not: the producer has chosen the
// record's key.
const (
	attrSpecVersion = "specversion"
	attrID          = "id"
	attrSource      = "source"
	attrType        = "type"
	attrContentType = "datacontenttype"
	attrExpiryTime  = "expirytime"
)

// Event is the CloudEvent of a job (1.0, Kafka binding). The job's Value holds the
// record's bytes in both modes; see [Job.Payload].
type Event struct {
	// Structured: the value is the whole event, as JSON. Otherwise (binary
	// mode) the value is the data, and the attributes came as ce_ headers.
	Structured bool
	// Attributes are all of the event's attributes but datacontenttype, each
	// name once, in the order in which they came. At most 64, 16 KiB in all.
	Attributes []Attribute

	contentType string // of the data, in structured mode
	data        []byte // in structured mode; nil: none
	decoded     bool   // data was base64; otherwise it is JSON
}

// Attribute is one attribute of a CloudEvent in its canonical text form. Name
// holds lower-case letters and digits only; Value no control characters, and it
// mostly points into the record.
type Attribute struct {
	Name  string
	Value []byte
}

// Attribute returns an attribute's value; nil: the event has none of that name.
func (e *Event) Attribute(name string) []byte {
	if a := e.find(name); a != nil {
		return a.Value
	}
	return nil
}

func (e *Event) find(name string) *Attribute {
	for i := range e.Attributes {
		if e.Attributes[i].Name == name {
			return &e.Attributes[i]
		}
	}
	return nil
}

// field names an attribute as it is written in the record.
func (e *Event) field(name string) string {
	if e.Structured {
		return name
	}
	return ceHeader + name
}

// check checks the attributes that the specification requires, and the sizes.
func (e *Event) check() error {
	for _, name := range [...]string{attrSpecVersion, attrID, attrSource, attrType} {
		value := e.Attribute(name)
		if len(value) == 0 {
			return broken(e.field(name), "is missing or empty; a CloudEvent needs it")
		}
		if name == attrSpecVersion && string(value) != "1.0" {
			return broken(e.field(name), shownVersion(value)+"only 1.0 is understood")
		}
	}
	size := 0
	for i := range e.Attributes {
		a := &e.Attributes[i]
		size += len(a.Name) + len(a.Value)
		if err := checkText(e.field(a.Name), a.Value, maxAttributeBytes); err != nil {
			return err
		}
	}
	if size > maxAttributeBytes {
		return broken(e.field("*"), "the attributes are larger than "+strconv.Itoa(maxAttributeBytes)+" bytes")
	}
	return nil
}

// shownVersion shows a version in an error if it plainly is one. Other text may be a
// value in the wrong place.
func shownVersion(v []byte) string {
	if len(v) > 5 || strings.Trim(string(v), "0123456789.") != "" {
		return ""
	}
	return "is " + string(v) + "; "
}

// fillFrom takes values that no header states from the event's extensions.
func (h *headers) fillFrom(e *Event) error {
	if h.notAfter == nil {
		h.notAfter = e.Attribute(attrExpiryTime)
		if _, err := instant(e.field(attrExpiryTime), h.notAfter); err != nil {
			return err
		}
	}
	var err error
	if h.traceparent == nil {
		h.traceparent, err = e.short(HeaderTraceparent)
	}
	if h.tracestate == nil && err == nil {
		h.tracestate, err = e.short(HeaderTracestate)
	}
	return err
}

// short returns an attribute that may be as long as a header.
func (e *Event) short(name string) ([]byte, error) {
	value := e.Attribute(name)
	return value, checkText(e.field(name), value, maxTextBytes)
}

// id identifies the event: source and id together are unique (CloudEvents, 3.1). A
// source is a URI reference and so has no bar; with the bar between them no two events
// share an id. If the two are too long, or the source holds a bar all the same, their
// hash is the id.
func (e *Event) id() string {
	source, id := e.Attribute(attrSource), e.Attribute(attrID)
	if len(source)+1+len(id) <= MaxIDBytes && !slices.Contains(source, '|') {
		return string(source) + "|" + string(id)
	}
	hash := sha256.New()
	hash.Write(source)
	hash.Write([]byte{0}) // in neither of them
	hash.Write(id)
	return "ce-sha256:" + hex.EncodeToString(hash.Sum(nil))
}

// add appends an attribute whose name is new.
func (e *Event) add(name string, value []byte) error {
	if len(e.Attributes) == maxAttributes {
		return broken(e.field("*"), "more than "+strconv.Itoa(maxAttributes)+" attributes")
	}
	e.Attributes = append(e.Attributes, Attribute{Name: name, Value: value})
	return nil
}

// isAttributeName: lower-case letters and digits.
func isAttributeName[T string | []byte](name T) bool {
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return len(name) > 0 && len(name) <= maxNameBytes
}
