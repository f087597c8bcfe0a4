package embedded_test

import (
	"strconv"
	"strings"
	"testing"

	"dispatcher/internal/background"
	"dispatcher/internal/embedded"
)

// Jobs of the first lane that come while a long queue waits in the second one are
// called at once; the second lane has its min share between them, and no more.
func TestUrgentJobsPassTheQueue(t *testing.T) {
	t.Parallel()
	const urgent, first = 60, 10_000
	p := begin(t, embedded.Options{MoreTopics: []string{"urgent"}})
	enqueue(t, p, 3000)
	f, err := embedded.NewFleet(p, 1, logger(t), patient("limits.0.cap=200", "kafka.topics=",
		"kafka.lanes.0.name=urgent", "kafka.lanes.0.topics=urgent", "kafka.lanes.1.name=bulk", "kafka.lanes.1.topics=jobs", "kafka.lanes.1.min_share=0.25")...)
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, f.Run)
	await(t, func() bool { return p.Provider.Count() > 200 })
	write(t, p, "urgent", first, first+urgent)
	var at []int // of the arrivals, those of urgent jobs
	await(t, func() bool {
		at = at[:0]
		for i, a := range p.Provider.Arrivals() {
			if n, err := strconv.Atoi(strings.TrimPrefix(a.Key, "job-")); err == nil && n >= first {
				at = append(at, i)
			}
		}
		return len(at) == urgent
	})
	// A few more than the min share, for those that were on their way.
	others := at[urgent-1] - at[0] + 1 - urgent
	if others < urgent/4 || others > urgent/3+20 {
		t.Errorf("got %d jobs of the other lane between %d urgent ones, want about %d", others, urgent, urgent/3)
	}
}
