package job

import (
	"bytes"
	"strconv"
	"strings"
)

// ceHeader is the prefix of an attribute's header.
const ceHeader = "ce_"

// structuredType is the prefix of a structured event's content type.
const structuredType = "application/cloudevents"

// isAttribute tells whether a header holds an attribute of a CloudEvent. It is called
// for each header of each job.
func isAttribute(name string) bool {
	return len(name) > len(ceHeader) && name[2] == '_' && name[0]|0x20 == 'c' && name[1]|0x20 == 'e'
}

// required tells the attributes whose header makes a record an event. Any producer may
// use other ce_ headers.
func required(name string) bool {
	switch strings.ToLower(name) {
	case attrSpecVersion, attrID, attrSource, attrType:
		return true
	}
	return false
}

// event reads the CloudEvent that a record holds; nil: it holds none.
func (h *headers) event(r *Record) (*Event, error) {
	var e *Event
	var err error
	switch {
	case isStructured(h.contentType):
		if err := checkFormat(h.contentType); err != nil {
			return nil, err
		}
		e, err = structured(r.Value)
	case h.isEvent:
		e, err = h.binary(r.Headers)
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return e, e.check()
}

func isStructured(contentType []byte) bool {
	n := len(structuredType)
	return len(contentType) >= n && bytes.EqualFold(contentType[:n], []byte(structuredType))
}

// checkFormat refuses everything but a single event in JSON. It names standard formats
// only, because the header may hold anything.
func checkFormat(contentType []byte) error {
	switch media := mediaType(string(contentType[len(structuredType):])); {
	case media == "", media == "+json":
		return nil
	case strings.HasPrefix(media, "-batch"):
		return broken(HeaderContentType, "a batch of CloudEvents is not one job; write each event as a record of its own")
	case media == "+avro", media == "+protobuf", media == "+xml":
		return broken(HeaderContentType, "the format "+media[1:]+" of CloudEvents is not understood, only JSON")
	}
	return broken(HeaderContentType, "only the format JSON of CloudEvents is understood")
}

// binary gathers the attributes from the headers. As with all headers, the last
// one of a name counts.
func (h *headers) binary(all []Header) (*Event, error) {
	e := &Event{Attributes: make([]Attribute, 0, min(h.attributes, maxAttributes))}
	for i := range all {
		if !isAttribute(all[i].Key) {
			continue
		}
		name := strings.ToLower(all[i].Key[len(ceHeader):])
		if !isAttributeName(name) {
			return nil, broken(ceHeader+"*", "the name of an attribute holds letters and digits only, at most "+strconv.Itoa(maxNameBytes))
		}
		if name == attrContentType {
			continue // in this mode the header content-type holds it
		}
		if before := e.find(name); before != nil {
			before.Value = all[i].Value
		} else if err := e.add(name, all[i].Value); err != nil {
			return nil, err
		}
	}
	return e, nil
}
