package integration

import (
	"testing"

	"github.com/segmentio/kafka-go"
)

// parts are the partitions that a node holds, with what the group has committed
// there.
func (s *scene) parts(t *testing.T, n *node) map[int]int64 {
	t.Helper()
	client := s.client(t)
	group := "dispatcher." + s.topic
	r, err := client.DescribeGroups(t.Context(), &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		t.Fatal(err)
	}
	held := map[int]int64{}
	for _, g := range r.Groups {
		for _, m := range g.Members {
			if m.ClientID != "dispatcher-"+n.name {
				continue
			}
			for _, topic := range m.MemberAssignments.Topics {
				for _, p := range topic.Partitions {
					held[p] = 0
				}
			}
		}
	}
	if len(held) == 0 {
		t.Fatalf("node %d holds no partitions: %+v", n.number, r.Groups)
	}
	for p, offset := range s.committed(t) {
		if _, ok := held[p]; ok {
			held[p] = offset
		}
	}
	return held
}

// worked reports whether the group has committed more in each partition.
func (s *scene) worked(t *testing.T, since map[int]int64) bool {
	t.Helper()
	now := s.committed(t)
	for p, offset := range since {
		if now[p] <= offset {
			return false
		}
	}
	return true
}

func (s *scene) committed(t *testing.T) map[int]int64 {
	t.Helper()
	client := s.client(t)
	var partitions []int
	for p := range 12 {
		partitions = append(partitions, p)
	}
	r, err := client.OffsetFetch(t.Context(), &kafka.OffsetFetchRequest{
		GroupID: "dispatcher." + s.topic, Topics: map[string][]int{s.topic: partitions},
	})
	if err != nil {
		return nil
	}
	offsets := map[int]int64{}
	for _, p := range r.Topics[s.topic] {
		offsets[p.Partition] = p.CommittedOffset
	}
	return offsets
}
