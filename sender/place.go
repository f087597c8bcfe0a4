package sender

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"dispatcher/job"
)

const (
	// maxMessageID is the longest id that is kept, in bytes. A longer one is dropped:
	// half an id finds nothing at the provider.
	maxMessageID = 256
	mostSteps    = 16 // steps of a path into JSON
)

// place is where in an answer the provider says something. At most one of its fields is set.
type place struct {
	header string   // canonical
	path   []string // keys of objects, and numbers of entries in lists
}

// atPlace is what must be stated of a place.
const atPlace = "must be empty, header:NAME, or json:PATH as in json:%s, with at most %d steps"

// parsePlace reads header:NAME, json:PATH, or nothing.
func parsePlace(text string) (_ place, ok bool) {
	if text == "" {
		return place{}, true
	}
	switch kind, rest, _ := strings.Cut(text, ":"); kind {
	case "header":
		return place{header: http.CanonicalHeaderKey(rest)}, IsHeaderName(rest)
	case "json":
		path := strings.Split(rest, ".")
		return place{path: path}, len(path) <= mostSteps && !slices.Contains(path, "")
	}
	return place{}, false
}

// read is what stands there in an answer; empty: nothing that can be read. body may be nil.
func (p *place) read(header http.Header, body []byte) string {
	switch {
	case p.header != "":
		if values := header[p.header]; len(values) > 0 {
			return strings.TrimSpace(values[0])
		}
	case p.path != nil:
		return scalar(follow(body, p.path))
	}
	return ""
}

// readUnits is a number of units that the provider counted; nil: it states none. A number that no
// job may count is no number of units.
func readUnits(text string) *int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > job.MaxCost {
		return nil
	}
	return &n
}

// follow walks into JSON; nil: the path leads nowhere.
func follow(raw json.RawMessage, path []string) json.RawMessage {
	for _, step := range path {
		if raw = bytes.TrimLeft(raw, " \t\r\n"); len(raw) == 0 {
			return nil
		}
		switch raw[0] {
		case '{':
			var object map[string]json.RawMessage
			if json.Unmarshal(raw, &object) != nil {
				return nil
			}
			raw = object[step]
		case '[':
			var list []json.RawMessage
			at, err := strconv.ParseUint(step, 10, 16)
			if err != nil || json.Unmarshal(raw, &list) != nil || at >= uint64(len(list)) {
				return nil
			}
			raw = list[at]
		default:
			return nil
		}
	}
	return raw
}

// scalar is the text of a JSON string, or a number as it is written.
func scalar(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var number json.Number
	if json.Unmarshal(raw, &number) == nil {
		return number.String()
	}
	return ""
}

// cleanID drops an id that would do harm in a log or a record.
func cleanID(id string) string {
	if len(id) > maxMessageID || !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl) {
		return ""
	}
	return id
}
