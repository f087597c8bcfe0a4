package enqueuecmd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"dispatcher/job"
)

// envelopeRoom bounds the bytes of an envelope besides the value.
const envelopeRoom = 64 << 10

// reader makes jobs of lines.
type reader struct {
	in       *bufio.Reader
	parse    func(line []byte) (job.Record, error)
	check    func(job.Record) error // nil: none
	maxLine  int                    // bytes
	maxValue int                    // bytes
	line     int                    // number of the last line read, from 1
	consumed int64
	skipped  int // lines that are left out first, whatever they hold
}

func newReader(in io.Reader, format, keyField string, maxValue int) (*reader, error) {
	r := &reader{in: bufio.NewReaderSize(in, 64<<10), maxValue: maxValue}
	switch {
	case format == "lines":
		r.maxLine = maxValue
		r.parse = func(line []byte) (job.Record, error) { return plain(line, keyField) }
	case format == "ndjson" && keyField == "":
		// Escapes can make a value's text up to six times as long as the value.
		r.maxLine, r.parse = 6*maxValue+envelopeRoom, envelope
	case format == "ndjson":
		return nil, errors.New("enqueue: --key-field is for --format lines; an envelope has its key in \"key\"")
	default:
		return nil, fmt.Errorf("enqueue: --format: %q: must be lines or ndjson", format)
	}
	return r, nil
}

// next returns the next job. It skips empty lines, ends with io.EOF, and names
// the line in any other error, and never shows its text.
func (r *reader) next() (job.Record, error) {
	for {
		line, err := r.readLine()
		if err != nil {
			return job.Record{}, err
		}
		if len(line) == 0 || r.line <= r.skipped {
			continue
		}
		rec, err := r.parse(line)
		if err == nil && len(rec.Value) > r.maxValue {
			err = tooLong(r.maxValue)
		}
		if err == nil && r.check != nil {
			err = r.check(rec)
		}
		if err != nil {
			return job.Record{}, fmt.Errorf("line %d: %w", r.line, err)
		}
		return rec, nil
	}
}

// readLine returns a copy of the next line without its end.
func (r *reader) readLine() ([]byte, error) {
	var line []byte
	r.line++
	for {
		part, err := r.in.ReadSlice('\n')
		r.consumed += int64(len(part))
		line = append(line, part...)
		if r.line <= r.skipped {
			line = line[:0]
		}
		if len(line) > r.maxLine+len("\r\n") {
			return nil, fmt.Errorf("line %d: %w", r.line, tooLong(r.maxLine))
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) > 0: // the last line has no end
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", r.line, err)
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		return line, nil
	}
}

func tooLong(most int) error {
	return fmt.Errorf("has more than the %d bytes that are taken (kafka.max_job_bytes)", most)
}

// plain takes the line as the value. With a key field the line is a JSON object
// and that field's text or number the key.
func plain(line []byte, keyField string) (job.Record, error) {
	rec := job.Record{Value: line}
	if keyField == "" {
		return rec, nil
	}
	if !utf8.Valid(line) {
		return rec, errNotUTF8
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(line, &object); err != nil || object == nil {
		return rec, errors.New("is no JSON object, and so has no key field")
	}
	raw, ok := object[keyField]
	if !ok {
		return rec, fmt.Errorf("has no field %q", keyField)
	}
	if strings.IndexByte("-0123456789", raw[0]) >= 0 {
		rec.Key = raw
		return rec, nil
	}
	var text *string
	if err := json.Unmarshal(raw, &text); err != nil || text == nil {
		return rec, fmt.Errorf("field %q is neither text nor a number", keyField)
	}
	if !job.Paired(raw) {
		return rec, fmt.Errorf("field %q %w", keyField, errHalf)
	}
	rec.Key = []byte(*text)
	return rec, nil
}

// The decoder replaces what is no character by one and the same character, so that two ids
// become one. So a line that holds such is refused.
var (
	errNotUTF8 = errors.New("is not UTF-8; convert it first")
	errHalf    = errors.New(`holds half of a surrogate pair, such as \ud800; write whole characters`)
)

// envelope reads {"value": …, "key": …, "headers": {…}, "id": …}.
func envelope(line []byte) (job.Record, error) {
	var e struct {
		Value   json.RawMessage   `json:"value"`
		Key     *string           `json:"key"`
		Headers map[string]string `json:"headers"`
		ID      *string           `json:"id"`
	}
	if !utf8.Valid(line) {
		return job.Record{}, errNotUTF8
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		return job.Record{}, envelopeFault(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return job.Record{}, errors.New("holds more than one JSON object")
	}
	if !job.Paired(line) {
		if err := findHalf(line); err != nil {
			return job.Record{}, err
		}
	}
	if len(e.Value) == 0 || bytes.Equal(e.Value, []byte("null")) {
		return job.Record{}, errors.New(`has no "value"`)
	}
	rec := job.Record{Value: e.Value}
	if e.Key != nil {
		rec.Key = []byte(*e.Key)
	}
	if e.Value[0] == '"' {
		var text string
		if err := json.Unmarshal(e.Value, &text); err != nil {
			return job.Record{}, errors.New(`"value" is no text`)
		}
		rec.Value = []byte(text)
	} else if _, ok := e.Headers[job.HeaderContentType]; !ok {
		rec.Headers = append(rec.Headers, job.Header{Key: job.HeaderContentType, Value: []byte("application/json")})
	}
	headers, err := envelopeHeaders(e.Headers, e.ID)
	rec.Headers = append(rec.Headers, headers...)
	return rec, err
}

// findHalf names the field of a well-formed envelope that holds half of a surrogate pair. A
// value that is no text may: it is sent as it is.
func findHalf(line []byte) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	_, _ = dec.Token() // the brace
	for dec.More() {
		name, _ := dec.Token()
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return err
		}
		sentAsItIs := raw[0] != '"' && strings.EqualFold(fmt.Sprint(name), "value")
		if !sentAsItIs && !job.Paired(raw) {
			return fmt.Errorf("%q %w", name, errHalf)
		}
	}
	return nil
}

// envelopeFault explains why an envelope can't be parsed. It names fields and never
// shows their values.
func envelopeFault(err error) error {
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("unknown field %.80s; there are value, key, headers and id", field)
	}
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return errors.New(`is no JSON object of "value", "key", "headers" and "id"`)
	case wrong.Field == "":
		return fmt.Errorf(`is a JSON %s, and must be an object of "value", "key", "headers" and "id"`, wrong.Value)
	case wrong.Field == "headers" && wrong.Type.Kind() == reflect.Map:
		return errors.New(`"headers" must be an object whose values are texts`)
	case strings.HasPrefix(wrong.Field, "headers"):
		return errors.New(`each value in "headers" must be text`)
	}
	return fmt.Errorf("%q must be text, and is a %s", wrong.Field, wrong.Value)
}

func envelopeHeaders(given map[string]string, id *string) ([]job.Header, error) {
	var headers []job.Header
	size := 0
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value := given[name]
		if name == "" || !utf8.ValidString(name) {
			return nil, errors.New("has a header without a name")
		}
		size += len(name) + len(value)
		headers = append(headers, job.Header{Key: name, Value: []byte(value)})
	}
	if size > envelopeRoom {
		return nil, fmt.Errorf("has more than %d bytes of headers", envelopeRoom)
	}
	if id == nil {
		return headers, nil
	}
	if _, twice := given[job.HeaderIdempotencyKey]; twice || *id == "" {
		return nil, fmt.Errorf(`has an "id" that is empty or also a header %s`, job.HeaderIdempotencyKey)
	}
	return append(headers, job.Header{Key: job.HeaderIdempotencyKey, Value: []byte(*id)}), nil
}
