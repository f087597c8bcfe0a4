package group

import (
	"fmt"
	"sync/atomic"
	"time"

	"dispatcher/consumer/internal/lifetime"

	"github.com/segmentio/kafka-go"
)

// staleTime is how long a broker may take to learn of a new topic or of added partitions. A
// number of partitions that differs for less ends no generation.
const staleTime = 5 * time.Second

// notLeader stands for the number of partitions where another member assigned them.
const notLeader = -1

// errPartitions: the group's leader did not assign all partitions, or more than there are. It
// joins again, which has it assign the partitions once more.
var errPartitions = fmt.Errorf("the topic has another number of partitions than the leader assigned: %w", lifetime.ErrRevoked)

// balancer gives each member a range of the partitions. Only the group's leader assigns; it
// keeps how many partitions the coordinator knew. The coordinator may not know yet the
// topic, or partitions that were added, and kafka-go takes that for no error.
type balancer struct {
	kafka.RangeGroupBalancer

	assigned atomic.Int64 // or notLeader
}

// UserData is called before each join, when nobody leads yet.
func (b *balancer) UserData() ([]byte, error) {
	b.assigned.Store(notLeader)
	return b.RangeGroupBalancer.UserData()
}

// AssignGroups is called for the leader alone.
func (b *balancer) AssignGroups(members []kafka.GroupMember, partitions []kafka.Partition) kafka.GroupMemberAssignments {
	b.assigned.Store(int64(len(partitions)))
	return b.RangeGroupBalancer.AssignGroups(members, partitions)
}

// checkPartitions ends the assignment of a leader once the topic has had another number of
// partitions than it assigned for staleTime.
func (a *assignment) checkPartitions(now int) {
	switch {
	case a.assigned == notLeader || now == a.assigned:
		a.differs = time.Time{}
	case a.differs.IsZero():
		a.differs = time.Now()
	case time.Since(a.differs) >= staleTime && a.Ended().IsZero():
		a.g.o.Log.Info("the topic has another number of partitions than were assigned, joining again",
			"topic", a.g.topic(), "assigned", a.assigned, "partitions", now)
		a.End(errPartitions)
	}
}
