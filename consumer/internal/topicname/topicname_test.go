package topicname_test

import (
	"testing"
	"time"

	"dispatcher/consumer/internal/topicname"
)

func TestRetryTopicNames(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		time.Second: "t.retry.1s", 90 * time.Second: "t.retry.1m30s", time.Minute: "t.retry.1m", 10 * time.Minute: "t.retry.10m", time.Hour: "t.retry.1h",
	} {
		if got := topicname.Retry("t", d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}
