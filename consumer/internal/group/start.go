package group

import (
	"fmt"

	"dispatcher/consumer/internal/offsets"
	"dispatcher/consumer/internal/schedule"

	"github.com/segmentio/kafka-go"
)

// startPartitions sets up the partitions whose committed offset and log can be read now. It
// returns the numbers of the others, and the error of one.
func (a *assignment) startPartitions(ids []int) (parts []*schedule.Partition, missing []int, err error) {
	positions, err := a.positions(ids)
	topic := a.topicID()
	for _, id := range ids {
		at, ok := positions[id]
		at.Topic = topic
		switch {
		case !ok:
			missing = append(missing, id)
		case at.Lost() && a.g.o.OutOfRange == offsets.RangeStop:
			missing = append(missing, id)
			a.g.o.Refuse(at.LostError(id))
		default:
			parts = append(parts, a.newPartition(id, at))
		}
	}
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("the cluster described %d of %d partitions", len(parts), len(ids))
	}
	return parts, missing, err
}

// positions may return some positions beside an error.
func (a *assignment) positions(ids []int) (map[int]offsets.Position, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return a.g.o.Client.Positions(a.Context(), a.g.o.ID, a.g.topic(), ids, kafka.ReadUncommitted)
}

// newPartition makes a partition that begins at its committed offset. Where there is none,
// the first commit comes at once, or tools would show no lag.
func (a *assignment) newPartition(id int, at offsets.Position) *schedule.Partition {
	base, m, problem := at.Resolve(id < a.fresh)
	switch {
	case at.Truncated():
		a.g.o.Log.Error("the log was truncated: it ends before the committed offset; the records in between are lost, going on at its end",
			"topic", a.g.topic(), "partition", id, "committed", at.Committed, "log_end", at.LogEnd)
		problem = ""
	case at.Lost() && a.g.o.OutOfRange == offsets.RangeLatest:
		base, m, problem = at.LogEnd, offsets.Metadata{}, "begin at the log's end; the records before are given up"
	}
	if problem != "" {
		a.g.o.Log.Warn("committed offset and log don't fit", "partition", id, "committed", at.Committed,
			"log_start", at.LogStart, "log_end", at.LogEnd, "consequence", problem)
	}
	t := offsets.NewTracker(base)
	t.Restore(&m)
	// Revision 0 counts as committed only where Kafka has exactly this, with the topic's id:
	// without it a truncated log could not be distinguished from another one. Metadata that was
	// dropped must go from Kafka as well: once the log has grown, it would fit records that are new.
	if problem != "" || at.Committed != base || at.CommittedTopic() != at.Topic {
		t.Touch()
	}
	return a.NewPartition(a.g.o.Source, schedule.PartitionOptions{ID: id, Tracker: t, Committed: at.Committed, Stable: at.LogEnd})
}
