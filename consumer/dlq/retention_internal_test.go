package dlq

import (
	"testing"
	"time"

	"dispatcher/consumer/internal/broker"
)

func TestRetentionIsWrittenForPeople(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		unit time.Duration
		want string
	}{
		{"10080", time.Minute, "7 days"},
		{"-1", time.Millisecond, "ever"},
		{"9223372036854775807", time.Millisecond, "ever"},
		{"60000", time.Millisecond, "1m"},
		{"90000", time.Millisecond, "1m30s"},
		{"2160", time.Minute, "36h"},
		{"x", time.Minute, ""},
	} {
		got := broker.ParseDuration(c.text, c.unit)
		if text := span(got); got != 0 && text != c.want || got == 0 && c.want != "" {
			t.Errorf("%s: got %q, want %q", c.text, text, c.want)
		}
	}
}
