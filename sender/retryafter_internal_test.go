package sender

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		header map[string]string
		want   time.Duration
	}{
		{"none", nil, 0},
		{"seconds", map[string]string{"Retry-After": "7"}, 7 * time.Second},
		{"zero", map[string]string{"Retry-After": "0", "RateLimit": `"a";r=0;t=9`}, 0},
		{"fraction", map[string]string{"Retry-After": "0.0004"}, time.Millisecond},
		{"much", map[string]string{"Retry-After": "1000000"}, maxRetryAfter},
		{"absurd", map[string]string{"Retry-After": strings.Repeat("9", 30)}, maxRetryAfter},
		{"sign", map[string]string{"Retry-After": "-5"}, 0},
		{"exponent", map[string]string{"Retry-After": "1e2"}, 0},
		{"date", map[string]string{"Retry-After": "Sun, 01 Mar 2026 12:00:30 GMT"}, 30 * time.Second},
		{"old date", map[string]string{"Retry-After": "Sunday, 01-Mar-26 12:00:30 GMT"}, 30 * time.Second},
		{"past", map[string]string{"Retry-After": "Sun, 01 Mar 2026 11:00:00 GMT"}, 0},
		{
			"the provider's clock is an hour ahead",
			map[string]string{"Date": "Sun, 01 Mar 2026 13:00:00 GMT", "Retry-After": "Sun, 01 Mar 2026 13:00:05 GMT"},
			5 * time.Second,
		},
		{"malformed, then RateLimit", map[string]string{"Retry-After": "soon", "RateLimit": `"default";r=0;t=30`}, 30 * time.Second},
		{"the policy that is used up", map[string]string{"RateLimit": `"burst";r=0;t=2, "daily";r=900;t=86400`}, 2 * time.Second},
		{"two that are", map[string]string{"RateLimit": `"burst";r=0;t=2,"hour";r=0;t=50`}, 50 * time.Second},
		{"none that is", map[string]string{"RateLimit": `"a";r=3;t=20,"b";r=4;t=5`}, 5 * time.Second},
		{"a name with separators", map[string]string{"RateLimit": `"a\",;t=9;";r=0;t=3`}, 3 * time.Second},
		{"older shape", map[string]string{"RateLimit": "limit=100, remaining=0, reset=5"}, 5 * time.Second},
		{"oldest shape", map[string]string{"RateLimit-Reset": "4"}, 4 * time.Second},
		{"no time in it", map[string]string{"RateLimit": `"a";r=0;t=x`, "X-RateLimit-Reset": "6"}, 6 * time.Second},
		{"epoch", map[string]string{"X-RateLimit-Reset": "1772366410"}, 10 * time.Second},
		{"epoch in ms", map[string]string{"X-RateLimit-Reset": "1772366410500"}, 10500 * time.Millisecond},
		{"far epoch", map[string]string{"X-RateLimit-Reset": "99999999999999999999"}, maxRetryAfter},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := make(http.Header)
			for name, value := range c.header {
				h.Set(name, value)
			}
			if got := retryAfter(h, noon(), true); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{
		"7", "0.5", "-1", "1e9", "Sun, 01 Mar 2026 12:00:30 GMT", "1772366410", "1772366410500",
		`"default";r=0;t=30`, `"a\`, `limit=100, remaining=50, reset=5`, `;;,,"`, "٣", strings.Repeat("9", 400),
	} {
		f.Add(seed, seed, seed, seed)
	}
	f.Fuzz(func(t *testing.T, after, limit, reset, date string) {
		h := make(http.Header)
		h.Set("Retry-After", after)
		h.Set("RateLimit", limit)
		h.Set("X-RateLimit-Reset", reset)
		h.Set("Date", date)
		for _, full := range []bool{false, true} {
			if d := retryAfter(h, noon(), full); d < 0 || d > maxRetryAfter {
				t.Errorf("got %v, want 0 to %v", d, maxRetryAfter)
			}
		}
		_ = noneLeft(h) // it must not panic
	})
}
