package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
)

// errLetterCommit: Kafka refused to remember what was settled, for good.
var errLetterCommit = errors.New("what was settled could not be committed")

// learn takes over what someone else has settled: all below base, and the marks
// from there on. What is settled here stays so.
func (l *ledger) learn(base int64, m *marks) {
	for o := l.base; o < min(base, l.end); o++ {
		l.complete(o)
	}
	if base > l.end {
		l.passTo(base) // nothing below is open any more
	}
	for i := range int64(m.n) {
		switch o := base + i; {
		case !m.done(i) || o < l.base:
		case o < l.end:
			l.complete(o)
		default:
			l.mark(o)
		}
	}
	l.advance()
}

// places asks what is settled in partitions of a dead-letter topic, and where
// their logs begin and end for a reader of committed records.
func (s *letterSession) places(ctx context.Context, topic string, ids []int) (map[int]place, error) {
	var found map[int]place
	err := patiently(ctx, func(ctx context.Context) error {
		// The offsets first: a log's end that is read later can only be higher.
		committed, err := s.committed(ctx, topic, ids)
		if err != nil {
			return fmt.Errorf("fetch offsets of group %s: %w", s.group(topic), err)
		}
		logs, err := listEnds(ctx, s.cl, topic, ids, kafka.ReadCommitted)
		if err != nil {
			return err
		}
		if found, err = merge(committed, logs); err == nil && len(found) < len(ids) {
			err = errStill
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", topic, err)
	}
	return found, nil
}

func (s *letterSession) committed(ctx context.Context, topic string, ids []int) ([]kafka.OffsetFetchPartition, error) {
	res, err := s.cl.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: s.group(topic), Topics: map[string][]int{topic: ids}})
	if err == nil {
		err = res.Error
	}
	if errors.Is(err, kafka.GroupIdNotFound) {
		none := make([]kafka.OffsetFetchPartition, len(ids))
		for i, id := range ids {
			none[i] = kafka.OffsetFetchPartition{Partition: id, CommittedOffset: -1}
		}
		return none, nil
	}
	if err != nil {
		return nil, err
	}
	return res.Topics[topic], nil
}

// book is what is settled of one partition while a command works on it.
type book struct {
	s      *letterSession
	topic  string
	id     int
	ledger ledger
	saved  uint64      // the ledger's revision that Kafka has
	hold   *letterHold // nil: nothing is to be written
	gen    int32       // the generation for which the ledger holds
}

// newBook begins where the group stands.
func (s *letterSession) newBook(topic string, id int, at place, hold *letterHold, gen int32) *book {
	b := &book{s: s, topic: topic, id: id, hold: hold, gen: gen}
	base, m, doubt := at.resolve(false)
	switch {
	case at.offset > at.last:
		s.tally.note(fmt.Sprintf("%s/%d ends at offset %d, before what was settled, so it is not the log that it was: all of its letters count as open", topic, id, at.last))
	case at.offset >= 0 && at.offset < at.first:
		s.tally.note(fmt.Sprintf("letters of %s/%d before offset %d were deleted by retention, open ones among them", topic, id, at.first))
	case doubt != "":
		s.tally.note(fmt.Sprintf("%s/%d: of group %s: %s", topic, id, s.group(topic), doubt))
	}
	b.ledger = newLedger(base)
	b.ledger.restore(&m)
	b.saved = b.ledger.rev
	return b
}

// current makes sure that the ledger is what Kafka has and what was settled
// here, and that nobody else can change it as long as the generation lasts.
func (b *book) current(ctx context.Context) (*kafka.Generation, error) {
	gen, err := b.hold.get(ctx)
	if err != nil || gen.ID == b.gen {
		return gen, err
	}
	places, err := b.s.places(ctx, b.topic, []int{b.id})
	if err != nil {
		return nil, err
	}
	base, m, _ := places[b.id].resolve(false)
	b.ledger.learn(base, &m.marks)
	b.gen = gen.ID
	return gen, nil
}

// save commits what is settled. An interrupt does not end it: the letters have
// been written by now.
func (b *book) save(ctx context.Context) error {
	if b.hold == nil || b.ledger.rev == b.saved {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*letterPatience)
	defer cancel()
	until := time.Now().Add(letterPatience)
	for n := 0; ; n++ {
		gen, err := b.current(ctx)
		if err != nil {
			return fmt.Errorf("%w: %w", errLetterCommit, err)
		}
		err = b.commit(ctx, gen)
		if err == nil {
			b.saved = b.ledger.rev
			return nil
		}
		if (!passing(err) && !fenced(err)) || time.Now().After(until) || !pause(ctx, backoff(n, 25*time.Millisecond, time.Second)) {
			return fmt.Errorf("%w: %s/%d: %w", errLetterCommit, b.topic, b.id, err)
		}
	}
}

// fenced: the generation is over, and another one will come.
func fenced(err error) bool {
	return errors.Is(err, kafka.IllegalGeneration) || errors.Is(err, kafka.UnknownMemberId) ||
		errors.Is(err, kafka.RebalanceInProgress) || errors.Is(err, kafka.FencedInstanceID)
}

func (b *book) commit(ctx context.Context, gen *kafka.Generation) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	snap := b.ledger.snapshot()
	res, err := b.s.cl.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		GroupID: b.s.group(b.topic), GenerationID: int(gen.ID), MemberID: gen.MemberID,
		Topics: map[string][]kafka.OffsetCommit{b.topic: {{Partition: b.id, Offset: snap.base, Metadata: snap.marks.encode()}}},
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
