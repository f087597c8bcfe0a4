package job

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
)

// structured reads an event in the JSON format. Unlike other values it must be valid to
// its end, because an attribute may be anywhere in it.
func structured(value []byte) (*Event, error) {
	s := scanner{b: value}
	if s.space(); s.at() != '{' || !json.Valid(value) {
		return nil, broken("value", "is no JSON object, which a structured CloudEvent is")
	}
	s.take('{')
	e := &Event{Structured: true}
	for s.space(); s.at() == '"'; s.space() {
		key, _ := s.str()
		s.space()
		s.take(':')
		s.space()
		from := s.i
		s.skip()
		if err := e.member(key, bytes.TrimRight(s.b[from:s.i], " \t\r\n")); err != nil {
			return nil, err
		}
		s.space()
		s.take(',')
	}
	return e, nil
}

// member adds one member of the event's object; both parts are JSON.
func (e *Event) member(key, raw []byte) error {
	decoded, _ := unescape(key)
	name := string(decoded)
	if string(raw) == "null" {
		return nil // as if it were not there
	}
	switch name {
	case "data":
		return e.setData(name, raw, false)
	case "data_base64":
		return e.setData(name, raw, true)
	}
	if !isAttributeName(name) {
		return broken("value", "the name of an attribute holds lower-case letters and digits only, at most "+strconv.Itoa(maxNameBytes))
	}
	value, err := attributeValue(name, raw)
	if err != nil {
		return err
	}
	if name == attrContentType {
		if e.contentType != "" {
			return broken(name, "is stated twice")
		}
		e.contentType = string(value)
		return checkText(name, value, maxTextBytes)
	}
	if e.find(name) != nil {
		return broken(name, "is stated twice")
	}
	return e.add(name, value)
}

// attributeValue is a JSON value's canonical text: a string's content, or a number or
// boolean as it is written.
func attributeValue(name string, raw []byte) ([]byte, error) {
	switch raw[0] {
	case '{', '[':
		return nil, broken(name, "is neither text nor a number, true or false")
	case '"':
		text, ok := unescape(raw[1 : len(raw)-1])
		if !ok {
			return nil, broken(name, "is not well-formed UTF-8")
		}
		return text, nil
	}
	return raw, nil
}

// setData keeps the data for [Job.Payload].
func (e *Event) setData(name string, raw []byte, encoded bool) error {
	if e.data != nil {
		return broken(name, "the data is stated twice")
	}
	e.data, e.decoded = raw, encoded
	if !encoded {
		return nil
	}
	if raw[0] != '"' {
		return broken(name, "is not text")
	}
	text, _ := unescape(raw[1 : len(raw)-1])
	var err error
	if e.data, err = base64.StdEncoding.DecodeString(string(text)); err != nil {
		return broken(name, "is not base64")
	}
	return nil
}

// Payload is the job's data and its content type: the value or, for a structured
// CloudEvent, the data in it. Nil: the event has no data.
func (j *Job) Payload() (body []byte, contentType string) {
	if j.Event == nil || !j.Event.Structured {
		return j.Value, j.ContentType
	}
	return j.Event.payload()
}

func (e *Event) payload() ([]byte, string) {
	switch {
	case e.data == nil:
		return nil, e.contentType
	case e.decoded:
		return e.data, e.contentType
	case e.contentType == "":
		return e.data, "application/json" // the format's default
	case isJSON(e.contentType) || e.data[0] != '"':
		return e.data, e.contentType
	}
	text, _ := unescape(e.data[1 : len(e.data)-1])
	return text, e.contentType
}

// mediaType is a content type in lower case, without its parameters.
func mediaType(contentType string) string {
	media, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	return strings.TrimSpace(media)
}

// isJSON tells whether a content type means JSON.
func isJSON(contentType string) bool {
	media := mediaType(contentType)
	return strings.HasSuffix(media, "/json") || strings.HasSuffix(media, "+json")
}
