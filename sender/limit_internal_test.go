package sender

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// An answer that refuses a call for its rate may say for which limit. No other answer is about one, and the body of one that
// accepted its job is not kept for that.
func TestAThrottledAnswerNamesItsLimit(t *testing.T) {
	t.Parallel()
	const body = `{"error":{"code":14107}}`
	for _, row := range []struct {
		place       string
		status      int
		header      http.Header
		body, limit string
		kept        bool
	}{
		{"json:error.code", 429, nil, body, "14107", true},
		{"json:error.code", 403, http.Header{"Retry-After": {"5"}}, body, "14107", true},
		{"json:error.code", 403, nil, body, "", true},
		{"json:error.code", 503, nil, body, "", true},
		{"json:error.code", 200, nil, body, "", false},
		{"json:error.code", 429, nil, `{"error":`, "", true},
		{"header:X-Limit", 429, http.Header{"X-Limit": {" recipient "}}, body, "recipient", false},
		{"header:X-Limit", 200, http.Header{"X-Limit": {"recipient"}}, body, "", false},
		{"", 429, http.Header{"X-Limit": {"recipient"}}, body, "", false},
	} {
		r := newAnswerReader(Config{ThrottledLimit: row.place, MaxResponseBytes: 1 << 10}, "https")
		resp := &http.Response{StatusCode: row.status, Header: row.header, Body: io.NopCloser(strings.NewReader(row.body))}
		kept, whole := r.read(resp)
		res := r.result(resp, kept, whole)
		if res.Limit != row.limit || !whole || (len(kept) > 0) != row.kept {
			t.Errorf("%s in a %d: got the limit %q and %d bytes kept, want %q and some kept: %t", row.place, row.status, res.Limit, len(kept), row.limit, row.kept)
		}
	}
}
