package node

import (
	"fmt"
	"testing"
	"time"

	"dispatcher/job"
)

// ofKey are so many jobs of a key.
func ofKey(key string, jobs int) (all []job.Record) {
	for i := range jobs {
		id := fmt.Sprint(key, "-", i)
		all = append(all, job.Record{Key: []byte(key), Value: []byte(id), Headers: []job.Header{{Key: job.HeaderIdempotencyKey, Value: []byte(id)}}})
	}
	return all
}

// A node that has no more jobs leaves the calls that it had in flight to a node that has some.
func TestANodeWithoutJobsLeavesItsRoomToOthers(t *testing.T) {
	t.Parallel()
	const most = 4
	limits := limitsOf(1000, 1)[:1]
	limits[0].MaxInFlight = most
	s := gated(limits)
	s.partitions = 2
	inBubble(t, s, func(b *bubble) {
		second := b.another()
		defer func() { second.stop() }()
		nodes := []*bubble{b, second}
		b.until(time.Minute, "both have a partition", func() bool {
			for _, n := range nodes {
				if s := n.consumer.Status(); !s.Joined || len(s.Partitions) != 1 {
					return false
				}
			}
			return true
		})
		b.write(ofKey("a", 40)...) // all of a key are in one partition
		b.write(ofKey("d", 400)...)
		b.until(time.Minute, "all are settled", func() bool { return b.settledOf() == 440 })
		few, many := callsOf("", b), callsOf("", second)
		if len(few) > len(many) {
			few, many = many, few
		}
		if len(few) != 40 {
			t.Fatalf("got %d and %d calls, want 40 on one node", len(few), len(many))
		}
		over := few[len(few)-1].Add(latency)
		const after = 150 * time.Millisecond // less than the time between two polls
		began := 0
		for _, at := range many {
			if at.After(over) && at.Before(over.Add(after)) {
				began++
			}
		}
		if want := int(most * after / latency); began < want*7/10 {
			t.Errorf("got %d calls in the %v after the other node's last one, want about %d: as many as may be in flight", began, after, want)
		}
	})
}
