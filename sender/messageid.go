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
)

const (
	// maxMessageID is the longest id that is kept, in bytes. A longer one is dropped:
	// half an id finds nothing at the provider.
	maxMessageID = 256
	mostSteps    = 16 // steps of a path into JSON
)

// messageID says where in an answer the provider names the message. At most one
// of its fields is set.
type messageID struct {
	header string   // canonical
	path   []string // keys of objects and places in lists
}

// parseMessageID reads header:NAME, json:PATH, or nothing.
func parseMessageID(text string) (_ messageID, ok bool) {
	if text == "" {
		return messageID{}, true
	}
	switch kind, rest, _ := strings.Cut(text, ":"); kind {
	case "header":
		return messageID{header: http.CanonicalHeaderKey(rest)}, IsHeaderName(rest)
	case "json":
		path := strings.Split(rest, ".")
		return messageID{path: path}, len(path) <= mostSteps && !slices.Contains(path, "")
	}
	return messageID{}, false
}

// read takes the id out of an answer; body may be nil. Without a readable id it
// returns an empty one, and the call counts all the same.
func (m *messageID) read(header http.Header, body []byte) string {
	switch {
	case m.header != "":
		if values := header[m.header]; len(values) > 0 {
			return cleanID(strings.TrimSpace(values[0]))
		}
	case m.path != nil:
		return cleanID(scalar(follow(body, m.path)))
	}
	return ""
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
