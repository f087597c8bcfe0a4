package consumer

import (
	"fmt"

	"github.com/segmentio/kafka-go"
)

// place is where a partition's log begins and ends, and what the group has
// committed there; offset -1: nothing yet.
type place struct {
	first, last int64
	offset      int64
	metadata    string
}

// locate sets up the partitions of the assignment at their committed offsets,
// and commits at once for those that have none, or tools would show no lag.
func (a *assignment) locate() error {
	places, err := a.places()
	if err != nil {
		return err
	}
	parts := make([]*partition, 0, len(places))
	for id, at := range places {
		parts = append(parts, a.settleIn(id, at))
	}
	a.parts = parts
	if len(parts) == 0 {
		a.g.log().Warn("no partition is left for this member: the group has more members than the topic has partitions")
	}
	return nil
}

func (a *assignment) places() (map[int]place, error) {
	assigned := a.gen.Assignments[a.g.topic]
	places := make(map[int]place, len(assigned))
	if len(assigned) == 0 {
		return places, nil
	}
	ids := make([]int, len(assigned))
	ask := make([]kafka.OffsetRequest, 0, 2*len(assigned))
	for i, p := range assigned {
		ids[i] = p.ID
		ask = append(ask, kafka.FirstOffsetOf(p.ID), kafka.LastOffsetOf(p.ID))
	}
	// The offsets first: a log's end that is read later can only be higher.
	committed, err := a.g.c.client.OffsetFetch(a.ctx, &kafka.OffsetFetchRequest{
		GroupID: a.g.id, Topics: map[string][]int{a.g.topic: ids},
	})
	if err == nil {
		err = committed.Error
	}
	if err != nil {
		return nil, fmt.Errorf("fetch offsets: %w", err)
	}
	logs, err := a.g.c.client.ListOffsets(a.ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{a.g.topic: ask}})
	if err != nil {
		return nil, fmt.Errorf("list offsets: %w", err)
	}
	return merge(len(assigned), places, committed.Topics[a.g.topic], logs.Topics[a.g.topic])
}

func merge(want int, places map[int]place, committed []kafka.OffsetFetchPartition, logs []kafka.PartitionOffsets) (map[int]place, error) {
	for _, l := range logs {
		if l.Error != nil {
			return nil, fmt.Errorf("list offsets of partition %d: %w", l.Partition, l.Error)
		}
		places[l.Partition] = place{first: l.FirstOffset, last: l.LastOffset, offset: -1}
	}
	seen := 0
	for _, c := range committed {
		if c.Error != nil {
			return nil, fmt.Errorf("fetch offset of partition %d: %w", c.Partition, c.Error)
		}
		at, ok := places[c.Partition]
		if !ok {
			continue
		}
		at.offset, at.metadata = c.CommittedOffset, c.Metadata
		places[c.Partition] = at
		seen++
	}
	if seen != want || len(places) != want {
		return nil, fmt.Errorf("the cluster described %d of %d partitions", seen, want)
	}
	return places, nil
}

func (a *assignment) settleIn(id int, at place) *partition {
	p := &partition{
		hub: a.g.c.hub, asg: a, topic: a.g.topic, id: id,
		wake: make(chan struct{}, 1), keys: make(map[uint64]*Delivery),
		committed: at.offset, stable: at.last,
	}
	base, m, doubt := at.resolve(a.g.c.opts.StartAt)
	if doubt != "" {
		a.g.log().Warn("committed offset and log don't fit", "partition", id, "committed", at.offset,
			"log_start", at.first, "log_end", at.last, "consequence", doubt)
	}
	p.ledger = newLedger(base)
	p.ledger.restore(m)
	p.fetched = p.ledger.base
	// Revision 0 counts as committed only where Kafka has exactly this.
	if at.offset != base {
		p.ledger.rev = 1
	}
	return p
}

// resolve decides where to begin and which marks to believe. doubt is empty
// when the commit fits the log.
//
// A commit beyond the log's end means that the topic was made anew or lost its
// end. To begin with the first record may repeat jobs; anything else may lose some.
func (at place) resolve(start StartAt) (base int64, m marks, doubt string) {
	switch {
	case at.offset < 0 && start == StartLast:
		return at.last, marks{}, ""
	case at.offset < 0:
		return at.first, marks{}, ""
	case at.offset > at.last:
		return at.first, marks{}, "begin with the first record"
	case at.offset < at.first:
		return at.first, marks{}, "records were deleted before they were worked"
	}
	m, err := decodeMarks(at.metadata)
	if err != nil {
		return at.offset, marks{}, "foreign metadata is ignored"
	}
	if at.offset+int64(m.n) > at.last {
		return at.offset, marks{}, "marks beyond the end of the log are dropped"
	}
	return at.offset, m, ""
}
