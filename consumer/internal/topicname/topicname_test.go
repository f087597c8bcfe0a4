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

func TestValidNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"jobs": true, "..dlq": true, "...": true, "": false, ".": false, "..": false, "a b": false} {
		if got := topicname.Valid(name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}

func TestTheSourceOfADeadLetterTopic(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		topicname.Dead("jobs"): "jobs", topicname.Parked("jobs"): "jobs", topicname.Dead(topicname.Parked("jobs")): "jobs.parked",
		"jobs": "", topicname.Results("jobs"): "", topicname.Retry("jobs", time.Minute): "",
	} {
		if got, ok := topicname.DeadOf(name); ok != (want != "") || ok && got != want {
			t.Errorf("%s: got %q, %v, want %q", name, got, ok, want)
		}
	}
}
