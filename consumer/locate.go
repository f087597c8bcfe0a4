package consumer

import (
	"fmt"

	"dispatcher/consumer/internal/offsets"

	"github.com/segmentio/kafka-go"
)

// locate sets up those of the partitions whose committed offset and log can be
// read now. Of the others it returns the numbers, and what is wrong with one.
func (a *assignment) locate(ids []int) (parts []*partition, missing []int, err error) {
	positions, err := a.positions(ids)
	topic := a.topicID()
	for _, id := range ids {
		at, ok := positions[id]
		at.Topic = topic
		switch {
		case !ok:
			missing = append(missing, id)
		case at.Lost() && a.g.c.opts.OutOfRange == RangeStop:
			missing = append(missing, id)
			a.g.refuse(lostError(at, id))
		default:
			parts = append(parts, a.settleIn(id, at))
		}
	}
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("the cluster described %d of %d partitions", len(parts), len(ids))
	}
	return parts, missing, err
}

// positions may hold something beside an error.
func (a *assignment) positions(ids []int) (map[int]offsets.Position, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return a.g.c.client.Positions(a.ctx, a.g.id, a.g.topic, ids, kafka.ReadUncommitted)
}

// settleIn makes a partition that begins at its committed offset. Where there is
// none, the first commit comes at once, or tools would show no lag.
func (a *assignment) settleIn(id int, at offsets.Position) *partition {
	p := &partition{
		feed: a.g.feed, hub: a.g.c.hub, asg: a, id: id,
		keys:      make(map[uint64]*Delivery),
		committed: at.Committed, stable: at.LogEnd,
	}
	base, m, doubt := at.Resolve(a.fresh)
	switch {
	case at.Truncated():
		a.g.log().Error("the log was cut: it ends before the committed offset; records that were in between are lost, going on at its end",
			"topic", a.g.topic, "partition", id, "committed", at.Committed, "log_end", at.LogEnd)
		doubt = ""
	case at.Lost() && a.g.c.opts.OutOfRange == RangeLatest:
		base, m, doubt = at.LogEnd, offsets.Metadata{}, "begin with what comes; what lies before is given up"
	}
	if doubt != "" {
		a.g.log().Warn("committed offset and log don't fit", "partition", id, "committed", at.Committed,
			"log_start", at.LogStart, "log_end", at.LogEnd, "consequence", doubt)
	}
	p.tracker = offsets.NewTracker(base)
	p.tracker.Restore(&m)
	p.begin, p.fetched = p.tracker.Low(), p.tracker.Low()
	// Revision 0 counts as committed only where Kafka has exactly this, with the
	// topic's id: without it a cut log could not be told from another one.
	if at.Committed != base || at.CommittedIn() != at.Topic {
		p.tracker.Touch()
	}
	return p
}

// lostError is why a consumer that is to stop at what is lost does not begin.
func lostError(at offsets.Position, partition int) error {
	if !at.Recreated() {
		return rangeError(partition, at.Committed, at.LogStart, at.LogEnd)
	}
	return fmt.Errorf("partition %d: offset %d was committed in a topic that was deleted and made anew, and out_of_range is stop: "+
		"see what became of its jobs, then set the group's offset, or out_of_range", partition, at.Committed)
}

// rangeError ends a consumer that is to stop at what it can't go on from.
func rangeError(partition int, offset, first, last int64) error {
	return fmt.Errorf("partition %d: offset %d is outside of the log from %d to %d, and out_of_range is stop: "+
		"see what became of the records, then set the group's offset, or out_of_range", partition, offset, first, last)
}
