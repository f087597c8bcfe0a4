package dlq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/offsets"

	"dispatcher/internal/wait"

	"github.com/segmentio/kafka-go"
)

// errCommit: Kafka refused to remember what was settled, for good.
var errCommit = errors.New("what was settled could not be committed")

// positions asks what is settled in partitions of a dead-letter topic, and where their
// logs begin and end for a reader of committed records.
func (s *command) positions(ctx context.Context, topic string, ids []int) (map[int]offsets.Position, error) {
	var found map[int]offsets.Position
	err := retry(ctx, func(ctx context.Context) error {
		var err error
		if found, err = s.cl.Positions(ctx, s.group(topic), topic, ids, kafka.ReadCommitted); err == nil && len(found) < len(ids) {
			err = errNoProgress
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", topic, err)
	}
	return found, nil
}

// book is what is settled of one partition while a command works on it.
type partitionState struct {
	s          *command
	topic      string
	id         int
	tracker    offsets.Tracker
	saved      uint64      // the ledger's revision that Kafka has
	membership *membership // nil: nothing is to be written
	gen        int32       // the generation for which the ledger holds
}

// newState begins where the group stands.
func (s *command) newState(topic string, id int, at offsets.Position, hold *membership, gen int32) *partitionState {
	b := &partitionState{s: s, topic: topic, id: id, membership: hold, gen: gen}
	base, m, doubt := at.Resolve(false)
	switch {
	case at.Committed > at.LogEnd:
		s.tally.note(fmt.Sprintf("%s/%d ends at offset %d, before what was settled, so it is not the log that it was: all of its letters count as open", topic, id, at.LogEnd))
	case at.Committed >= 0 && at.Committed < at.LogStart:
		s.tally.note(fmt.Sprintf("letters of %s/%d before offset %d were deleted by retention, open ones among them", topic, id, at.LogStart))
	case doubt != "":
		s.tally.note(fmt.Sprintf("%s/%d: of group %s: %s", topic, id, s.group(topic), doubt))
	}
	b.tracker = offsets.NewTracker(base)
	b.tracker.Restore(&m)
	b.saved = b.tracker.Rev()
	return b
}

// current makes sure that the ledger is what Kafka has and what was settled
// here, and that nobody else can change it as long as the generation lasts.
func (b *partitionState) current(ctx context.Context) (*kafka.Generation, error) {
	gen, err := b.membership.get(ctx)
	if err != nil || gen.ID == b.gen {
		return gen, err
	}
	places, err := b.s.positions(ctx, b.topic, []int{b.id})
	if err != nil {
		return nil, err
	}
	base, m, _ := places[b.id].Resolve(false)
	b.tracker.Merge(base, &m.Bitmap)
	b.gen = gen.ID
	return gen, nil
}

// save commits what is settled. An interrupt does not end it: the letters have
// been written by now.
func (b *partitionState) save(ctx context.Context) error {
	if b.membership == nil || b.tracker.Rev() == b.saved {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*Patience)
	defer cancel()
	until := time.Now().Add(Patience)
	for n := 0; ; n++ {
		gen, err := b.current(ctx)
		if err != nil {
			return fmt.Errorf("%w: %w", errCommit, err)
		}
		err = b.commit(ctx, gen)
		if err == nil {
			b.saved = b.tracker.Rev()
			return nil
		}
		if (!temporary(err) && !generationOver(err)) || time.Now().After(until) || !wait.For(ctx, wait.Backoff(n, 25*time.Millisecond, time.Second)) {
			return fmt.Errorf("%w: %s/%d: %w", errCommit, b.topic, b.id, err)
		}
	}
}

// generationOver: the generation is over, and another one will come.
func generationOver(err error) bool {
	return errors.Is(err, kafka.IllegalGeneration) || errors.Is(err, kafka.UnknownMemberId) ||
		errors.Is(err, kafka.RebalanceInProgress) || errors.Is(err, kafka.FencedInstanceID)
}

func (b *partitionState) commit(ctx context.Context, gen *kafka.Generation) error {
	ctx, cancel := context.WithTimeout(ctx, broker.CallTimeout)
	defer cancel()
	snap := b.tracker.Snapshot()
	res, err := b.s.cl.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		GroupID: b.s.group(b.topic), GenerationID: int(gen.ID), MemberID: gen.MemberID,
		Topics: map[string][]kafka.OffsetCommit{b.topic: {{Partition: b.id, Offset: snap.Low, Metadata: snap.Bitmap.Encode()}}},
	})
	if err != nil {
		return err
	}
	for _, p := range res.Topics[b.topic] {
		if p.Partition == b.id {
			return p.Error
		}
	}
	return errors.New("the partition is not in the answer")
}
