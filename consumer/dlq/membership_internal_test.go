package dlq

import (
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"pgregory.net/rapid"

	"dispatcher/consumer/internal/broker"
)

// Of all members one has everything: who had it before, else who came first.
func TestOneMemberHoldsAll(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 5).Draw(t, "members")
		members := make([]kafka.GroupMember, n)
		for i := range members {
			members[i] = kafka.GroupMember{
				ID:       string(rune('a' + i)),
				UserData: rapid.SliceOfN(rapid.ByteRange(0, 1), 0, 3).Draw(t, "right"),
			}
		}
		partitions := []kafka.Partition{{Topic: "a.dlq", ID: 0}, {Topic: "a.dlq", ID: 1}}
		got := (&exclusiveBalancer{}).AssignGroups(members, partitions)
		holders := 0
		for _, m := range members {
			parts, told := got[m.ID]
			if !told {
				t.Fatalf("member %s is not told", m.ID)
			}
			if len(parts["a.dlq"]) == 0 {
				continue
			}
			holders++
			for _, other := range members {
				if len(parts["a.dlq"]) != len(partitions) || strings.Compare(string(other.UserData), string(m.UserData)) < 0 {
					t.Fatalf("got %v for %v", got, members)
				}
			}
		}
		if n > 0 && holders != 1 {
			t.Fatalf("got %d holders", holders)
		}
	})
}

func TestTimesOfRetention(t *testing.T) {
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
