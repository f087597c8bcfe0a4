package sender

import (
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The key identifies the job: it must fit into a header, and two jobs must never
// share one.
func TestHeaderSafe(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]*`)).Draw(t, "id")
		key := headerSafe(id)
		if !isHeaderValue(key) || strings.ContainsAny(key, " \t") {
			t.Errorf("%q is no header value", key)
		}
		if back, err := url.PathUnescape(key); err != nil || back != id {
			t.Errorf("%q reads back as %q, %v; want %q", key, back, err, id)
		}
	})
}

func TestHeaderSafeKeepsPlainIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "order-17", "jobs/3/42", "550e8400-e29b-41d4-a716-446655440000", `!"#$&'()*+,-./:;<=>?@[\]^_{|}~`} {
		if got := headerSafe(id); got != id {
			t.Errorf("got %q, want %q", got, id)
		}
	}
}
