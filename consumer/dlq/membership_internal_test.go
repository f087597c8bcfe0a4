package dlq

import (
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"
	"pgregory.net/rapid"
)

// One member gets all partitions: the one that had them before, else the one that waited
// longest.
func TestOneMemberGetsAllPartitions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 5).Draw(t, "members")
		members := make([]kafka.GroupMember, n)
		for i := range members {
			members[i] = kafka.GroupMember{
				ID:       string(rune('a' + i)),
				UserData: rapid.SliceOfN(rapid.ByteRange(0, 1), 0, 3).Draw(t, "user data"),
			}
		}
		partitions := []kafka.Partition{{Topic: "a.dlq", ID: 0}, {Topic: "a.dlq", ID: 1}}
		got := (&exclusiveBalancer{}).AssignGroups(members, partitions)
		holders := 0
		for _, m := range members {
			parts, assigned := got[m.ID]
			if !assigned {
				t.Fatalf("got %v, want an assignment for member %s", got, m.ID)
			}
			if len(parts["a.dlq"]) == 0 {
				continue
			}
			holders++
			for _, other := range members {
				if len(parts["a.dlq"]) != len(partitions) || strings.Compare(string(other.UserData), string(m.UserData)) < 0 {
					t.Fatalf("got %v for %v, want all partitions at the first member by user data", got, members)
				}
			}
		}
		if n > 0 && holders != 1 {
			t.Fatalf("got %d members with partitions, want 1", holders)
		}
	})
}
