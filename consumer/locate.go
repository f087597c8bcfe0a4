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
	said        metadata // beside the offset
	unread      bool     // that is someone else's
	topic       topicID  // of the log; zero: not known
}

// of is the id of the topic in which the offset was committed; zero: not known.
func (at place) of() topicID { return at.said.topic }

// known tells whether the ids of both topics are: the one in which the offset was
// committed, and that of the log.
func (at place) known() bool {
	return at.topic != (topicID{}) && at.of() != (topicID{})
}

// foreign tells whether the offset was committed in another topic of that name,
// which was deleted since.
func (at place) foreign() bool { return at.offset >= 0 && at.known() && at.of() != at.topic }

// cut tells whether the log has lost its end, as by an unclean election: the
// offset was committed in this topic, and lies beyond the end.
func (at place) cut() bool { return at.offset > at.last && at.known() && at.of() == at.topic }

// locate sets up those of the partitions whose committed offset and log can be
// read now. Of the others it returns the numbers, and what is wrong with one.
func (a *assignment) locate(ids []int) (parts []*partition, missing []int, err error) {
	places, err := a.places(ids)
	topic := a.topicID()
	for _, id := range ids {
		at, ok := places[id]
		at.topic = topic
		switch {
		case !ok:
			missing = append(missing, id)
		case at.lost() && a.g.c.opts.OutOfRange == RangeStop:
			missing = append(missing, id)
			a.g.refuse(at.refusal(id))
		default:
			parts = append(parts, a.settleIn(id, at))
		}
	}
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("the cluster described %d of %d partitions", len(parts), len(ids))
	}
	return parts, missing, err
}

// places may hold something beside an error.
func (a *assignment) places(ids []int) (map[int]place, error) {
	if len(ids) == 0 {
		return nil, nil
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
	logs, err := listEnds(a.ctx, a.g.c.client, a.g.topic, ids, kafka.ReadUncommitted)
	if err != nil {
		return nil, err
	}
	return merge(committed.Topics[a.g.topic], logs)
}

// merge leaves out the partitions of which something is not known. Its error is
// about one of them.
func merge(committed []kafka.OffsetFetchPartition, logs []kafka.PartitionOffsets) (map[int]place, error) {
	var fault error
	known := make(map[int]kafka.OffsetFetchPartition, len(committed))
	for _, c := range committed {
		if c.Error != nil {
			fault = fmt.Errorf("fetch offset of partition %d: %w", c.Partition, c.Error)
			continue
		}
		known[c.Partition] = c
	}
	places := make(map[int]place, len(logs))
	for _, l := range logs {
		if l.Error != nil {
			fault = fmt.Errorf("list offsets of partition %d: %w", l.Partition, l.Error)
			continue
		}
		if c, ok := known[l.Partition]; ok {
			said, err := decodeMetadata(c.Metadata)
			places[l.Partition] = place{first: l.FirstOffset, last: l.LastOffset, offset: c.CommittedOffset, said: said, unread: err != nil}
		}
	}
	return places, fault
}

// settleIn makes a partition that begins at its committed offset. Where there is
// none, the first commit comes at once, or tools would show no lag.
func (a *assignment) settleIn(id int, at place) *partition {
	p := &partition{
		feed: a.g.feed, hub: a.g.c.hub, asg: a, id: id,
		keys:      make(map[uint64]*Delivery),
		committed: at.offset, stable: at.last,
	}
	base, m, doubt := at.resolve(a.fresh)
	switch {
	case at.cut():
		a.g.log().Error("the log was cut: it ends before the committed offset; records that were in between are lost, going on at its end",
			"topic", a.g.topic, "partition", id, "committed", at.offset, "log_end", at.last)
		doubt = ""
	case at.lost() && a.g.c.opts.OutOfRange == RangeLatest:
		base, m, doubt = at.last, metadata{}, "begin with what comes; what lies before is given up"
	}
	if doubt != "" {
		a.g.log().Warn("committed offset and log don't fit", "partition", id, "committed", at.offset,
			"log_start", at.first, "log_end", at.last, "consequence", doubt)
	}
	p.ledger = newLedger(base)
	p.ledger.restore(&m)
	p.begin, p.fetched = p.ledger.base, p.ledger.base
	// Revision 0 counts as committed only where Kafka has exactly this, with the
	// topic's id: without it a cut log could not be told from another one.
	if at.offset != base || at.of() != at.topic {
		p.ledger.rev = 1
	}
	return p
}

// lost tells whether what is committed is not in the log any more, or never was.
func (at place) lost() bool {
	return at.offset >= 0 && (at.offset < at.first || at.offset > at.last) || at.foreign()
}

// refusal is why a consumer that is to stop at what is lost does not begin.
func (at place) refusal(partition int) error {
	if !at.foreign() {
		return rangeError(partition, at.offset, at.first, at.last)
	}
	return fmt.Errorf("partition %d: offset %d was committed in a topic that was deleted and made anew, and out_of_range is stop: "+
		"see what became of its jobs, then set the group's offset, or out_of_range", partition, at.offset)
}

// rangeError ends a consumer that is to stop at what it can't go on from.
func rangeError(partition int, offset, first, last int64) error {
	return fmt.Errorf("partition %d: offset %d is outside of the log from %d to %d, and out_of_range is stop: "+
		"see what became of the records, then set the group's offset, or out_of_range", partition, offset, first, last)
}

// resolve decides where to begin and which metadata to believe. doubt is empty
// when the commit fits the log. atEnd: without a commit, begin with what comes.
//
// A commit beyond the log's end means that the log has lost its end, or that the
// topic was made anew. The topic's id tells which. Where it is not known, to begin
// with the first record may repeat jobs; anything else may lose some.
func (at place) resolve(atEnd bool) (base int64, m metadata, doubt string) {
	switch {
	case at.offset < 0 && atEnd:
		return at.last, metadata{}, ""
	case at.offset < 0:
		return at.first, metadata{}, ""
	case at.foreign():
		return at.first, metadata{}, "the offset is of a topic that was deleted: begin with the first record"
	case at.cut():
		return at.last, metadata{}, "the log was cut: go on at its end"
	case at.offset > at.last:
		return at.first, metadata{}, "begin with the first record"
	}
	base = max(at.offset, at.first)
	if at.offset < at.first {
		doubt = "records were deleted before they were worked"
	}
	if at.unread {
		return base, metadata{}, "foreign metadata is ignored"
	}
	if at.offset+at.said.span() > at.last {
		return base, metadata{}, "marks beyond the end of the log are dropped"
	}
	return base, at.said.from(base - at.offset), doubt
}
