package sender

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestMessageIDIsFound(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxMessageID)
	for name, c := range map[string]struct {
		option, body string
		header       http.Header
		want         string
	}{
		"nowhere":             {"", `{"id":"a"}`, http.Header{"X-Id": {"a"}}, ""},
		"header":              {"header:x-id", "", http.Header{"X-Id": {" a-1 ", "b"}}, "a-1"},
		"no header":           {"header:x-id", `{"id":"a"}`, nil, ""},
		"empty header":        {"header:x-id", "", http.Header{"X-Id": {""}}, ""},
		"field":               {"json:messageId", `{"x":1,"messageId":"a\u0062"}`, nil, "ab"},
		"number":              {"json:id", `{"id":12345678901234567890}`, nil, "12345678901234567890"},
		"deep":                {"json:messages.0.message-id", ` {"messages": [ {"message-id":"a"}, 2 ] }`, nil, "a"},
		"list":                {"json:1", `["a","b"]`, nil, "b"},
		"key that is a digit": {"json:1", `{"1":"a"}`, nil, "a"},
		"beyond the list":     {"json:2", `["a","b"]`, nil, ""},
		"no place":            {"json:x", `["a","b"]`, nil, ""},
		"into a text":         {"json:a.b", `{"a":"b"}`, nil, ""},
		"an object":           {"json:a", `{"a":{}}`, nil, ""},
		"null":                {"json:a", `{"a":null}`, nil, ""},
		"a truth":             {"json:a", `{"a":true}`, nil, ""},
		"no JSON":             {"json:a", `a=1`, nil, ""},
		"cut":                 {"json:a", `{"a":"1"`, nil, ""},
		"nothing":             {"json:a", "", nil, ""},
		"longest":             {"json:a", `{"a":"` + long + `"}`, nil, long},
		"too long":            {"json:a", `{"a":"` + long + `x"}`, nil, ""},
		"control character":   {"json:a", `{"a":"x\ny"}`, nil, ""},
		"header not UTF-8":    {"header:x-id", "", http.Header{"X-Id": {"a\xff"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, ok := parsePlace(c.option)
			if !ok {
				t.Fatalf("%s: refused, want it read", c.option)
			}
			if got := cleanID(m.read(c.header, []byte(c.body))); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestMessageIDOptionsThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"x", "header:", "header:a b", "json:", "json:a..b", "json:.a", "xml:a", "json:" + strings.Repeat("a.", 16) + "a"} {
		if err := (Config{MessageID: text}).Validate(); err == nil || !strings.Contains(err.Error(), `message_id: "`+text+`": must be empty, header:NAME, or json:PATH`) {
			t.Errorf("%s: got %v, want an error that names it", text, err)
		}
	}
}

func FuzzMessageID(f *testing.F) {
	f.Add("a", []byte(`{"a":"b"}`))
	f.Add("messages.0.id", []byte(`{"messages":[{"id":12}]}`))
	f.Add("0.0.0", []byte(`[[["\ud800"]]]`))
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		m, ok := parsePlace("json:" + path)
		if !ok {
			return
		}
		got := m.read(nil, body)
		if len(got) > maxMessageID || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
			t.Fatalf("got %q", got)
		}
		if got != "" && !json.Valid(body) {
			t.Fatalf("got %q from what is no JSON: %q", got, body)
		}
	})
}
