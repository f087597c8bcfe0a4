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

// errCommit says that Kafka did not accept the commit of settled letters.
var errCommit = errors.New("the letters that were settled could not be committed")

// positions returns what is settled in partitions of a dead-letter topic, and where their logs
// begin and end for a reader of committed records.
func (c *command) positions(ctx context.Context, topic string, ids []int) (map[int]offsets.Position, error) {
	var found map[int]offsets.Position
	err := retry(ctx, func(ctx context.Context) error {
		if err := c.identify(ctx, topic); err != nil {
			return err
		}
		var err error
		if found, err = c.client.Positions(ctx, c.group(topic), topic, ids, kafka.ReadCommitted); err == nil && len(found) < len(ids) {
			err = errNoProgress
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", topic, err)
	}
	for id, at := range found {
		at.Topic = c.ids[topic]
		found[id] = at
	}
	return found, nil
}

// identify asks for the id of a topic, once. It tells a log that lost its end from one of a topic that was created again.
func (c *command) identify(ctx context.Context, topic string) error {
	if _, known := c.ids[topic]; known {
		return nil
	}
	at := broker.Describer{Client: c.client}
	state, err := at.Describe(ctx, topic)
	if err == nil || errors.Is(err, broker.ErrNoTopicIDs) {
		c.ids[topic] = state.ID
		return nil
	}
	return err
}

// partitionState is which letters of one partition are settled, while a command works on it.
type partitionState struct {
	c          *command
	topic      string
	id         int
	tracker    offsets.Tracker
	saved      uint64      // the tracker's revision that Kafka has
	membership *membership // nil: the command commits nothing
	generation int32       // in which the tracker was last merged with Kafka's offsets
}

// newState begins with what the group has committed.
func (c *command) newState(topic string, id int, at offsets.Position, m *membership, generation int32) *partitionState {
	s := &partitionState{c: c, topic: topic, id: id, membership: m, generation: generation}
	base, metadata, problem := at.Resolve(false)
	switch {
	case at.Truncated():
		c.tally.note(fmt.Sprintf("%s/%d has lost its end: it ends at offset %d, before the last settled letter; all of its letters are settled", topic, id, at.LogEnd))
	case at.Committed > at.LogEnd:
		c.tally.note(fmt.Sprintf("%s/%d ends at offset %d, before the last settled letter, so the log is another one: all of its letters count as open", topic, id, at.LogEnd))
	case at.Committed >= 0 && at.Committed < at.LogStart:
		c.tally.note(fmt.Sprintf("letters of %s/%d before offset %d were deleted by retention, open ones among them", topic, id, at.LogStart))
	case problem != "":
		c.tally.note(fmt.Sprintf("%s/%d: of group %s: %s", topic, id, c.group(topic), problem))
	}
	s.tracker = offsets.NewTracker(base)
	s.tracker.Restore(&metadata)
	s.saved = s.tracker.Rev()
	if problem != "" { // commit what holds now: letters written from now on would count as settled once the log is as long again
		s.tracker.Touch()
	}
	return s
}

// current returns the present generation, in which only this command can commit. If it is a
// new one, current first merges what other commands have committed since.
func (s *partitionState) current(ctx context.Context) (*kafka.Generation, error) {
	gen, err := s.membership.get(ctx)
	if err != nil || gen.ID == s.generation {
		return gen, err
	}
	positions, err := s.c.positions(ctx, s.topic, []int{s.id})
	if err != nil {
		return nil, err
	}
	base, m, _ := positions[s.id].Resolve(false)
	s.tracker.Merge(base, &m.Bitmap)
	s.generation = gen.ID
	return gen, nil
}

// save commits the settled letters. An interrupt does not stop it, since the jobs of these
// letters are written already.
func (s *partitionState) save(ctx context.Context) error {
	if s.membership == nil || s.tracker.Rev() == s.saved {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*giveUpAfter)
	defer cancel()
	until := time.Now().Add(giveUpAfter)
	for n := 0; ; n++ {
		gen, err := s.current(ctx)
		if err != nil {
			return fmt.Errorf("%w: %w", errCommit, err)
		}
		err = s.commit(ctx, gen)
		if err == nil {
			s.saved = s.tracker.Rev()
			return nil
		}
		if (!temporary(err) && !generationOver(err)) || time.Now().After(until) || !wait.For(ctx, wait.Backoff(n, 25*time.Millisecond, time.Second)) {
			return fmt.Errorf("%w: %s/%d: %w", errCommit, s.topic, s.id, err)
		}
	}
}

// generationOver tells whether Kafka refused a commit because another generation follows.
func generationOver(err error) bool {
	return errors.Is(err, kafka.IllegalGeneration) || errors.Is(err, kafka.UnknownMemberId) ||
		errors.Is(err, kafka.RebalanceInProgress) || errors.Is(err, kafka.FencedInstanceID)
}

func (s *partitionState) commit(ctx context.Context, gen *kafka.Generation) error {
	ctx, cancel := context.WithTimeout(ctx, broker.CallTimeout)
	defer cancel()
	snap := s.tracker.Snapshot()
	metadata := offsets.Metadata{Topic: s.c.ids[s.topic], Bitmap: snap.Bitmap}
	res, err := s.c.client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		GroupID: s.c.group(s.topic), GenerationID: int(gen.ID), MemberID: gen.MemberID,
		Topics: map[string][]kafka.OffsetCommit{s.topic: {{Partition: s.id, Offset: snap.Low, Metadata: metadata.Encode()}}},
	})
	if err != nil {
		return err
	}
	for _, p := range res.Topics[s.topic] {
		if p.Partition == s.id {
			return p.Error
		}
	}
	return errors.New("the partition is not in the answer")
}
