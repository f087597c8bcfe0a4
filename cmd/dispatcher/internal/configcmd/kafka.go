package configcmd

import (
	"fmt"
	"io"
	"strings"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/consumer"
	"dispatcher/internal/timetext"
)

// printKafka prints which jobs go first, and which may overtake others.
func printKafka(w io.Writer, k consumer.Config) {
	_, _ = fmt.Fprintf(w, "kafka: %s\n", strings.Join(k.JobTopics(), ", "))
	for i, l := range k.Lanes {
		share := "no min_share"
		if l.MinShare > 0 {
			share = fmt.Sprintf("at least %g of the slots while it has jobs", l.MinShare)
		}
		if l.Fair != "" {
			share += "; tenants take turns: " + cli.InCell(l.Fair)
		}
		_, _ = fmt.Fprintf(w, "  lane %d\t%s\t%s; %s\n", i+1, l.Name, strings.Join(l.Topics, ", "), share)
	}
	_, _ = fmt.Fprintf(w, "  order\t%s\t%s\n", k.Order, map[string]string{
		"key":       "jobs of one key one at a time, retries included",
		"partition": "jobs of one partition one at a time, retries included",
		"none":      "any job at any time",
	}[string(k.Order)])
	if len(k.RetryTopics) == 0 {
		_, _ = fmt.Fprintf(w, "  retry topics\tnone\ta not-before may be at most a minute ahead\n")
		return
	}
	var delays []string
	for _, d := range k.RetryTopics {
		delays = append(delays, timetext.Short(d))
	}
	retries := "schedules"
	if k.Order == "none" {
		retries = "schedules and retries"
	}
	_, _ = fmt.Fprintf(w, "  retry topics\t%s\tfor %s\n", strings.Join(delays, ", "), retries)
}
