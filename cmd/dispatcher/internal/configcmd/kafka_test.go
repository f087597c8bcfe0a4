package configcmd

import (
	"strings"
	"testing"
	"time"

	"dispatcher/consumer"
)

// The check prints the lanes in their order, with their min shares, and which jobs wait
// in retry topics.
func TestCheckPrintsLanesAndRetryTopics(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	printKafka(&out, consumer.Config{Options: consumer.Options{
		Lanes: []consumer.Lane{{Name: "otp", Topics: []string{"codes"}}, {Name: "bulk", Topics: []string{"news"}, MinShare: 0.1}},
		Order: "none", RetryTopics: []time.Duration{5 * time.Second, time.Minute},
	}})
	for _, want := range []string{"kafka: codes, news\n", "lane 1\totp\tcodes; no min_share", "lane 2\tbulk\tnews; at least 0.1", "order\tnone", "5s, 1m\tfor schedules and retries"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant it to hold %q", out.String(), want)
		}
	}
}
