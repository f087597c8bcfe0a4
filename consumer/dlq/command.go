package dlq

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"dispatcher/consumer/deadletter"

	"dispatcher/consumer/internal/broker"

	"dispatcher/internal/fault"

	"github.com/segmentio/kafka-go"
)

// What is worked at once. A commit follows each such batch.
const (
	batchLetters = 500
	batchBytes   = 4 << 20
)

// work does with letters what a command is for, and returns those that it
// is done with, which may be some beside an error.
type work func(context.Context, []deadletter.Letter) ([]deadletter.Letter, error)

// command is one command at work.
type command struct {
	o       *Options
	f       *Filter
	settles bool
	dry     bool
	work    work
	batch   int // letters

	cl     *broker.Client
	layout map[string]kafka.Topic
	tally  Tally

	passed, all int64                        // offsets
	named       map[deadletter.RecordID]bool // and not met yet
}

func (s *command) group(topic string) string { return s.o.Group + "." + topic }

// run brings the letters before the work, partition by partition.
func (s *command) run(ctx context.Context, work work) (Tally, error) {
	s.work, s.tally.Classes = work, map[deadletter.Class]int64{}
	s.batch = cmp.Or(s.batch, batchLetters)
	topics, partitions, err := s.f.plan()
	if err != nil {
		return s.tally, err
	}
	s.named = make(map[deadletter.RecordID]bool, len(s.f.IDs))
	for _, id := range s.f.IDs {
		s.named[id] = true
	}
	if err := s.connect(ctx, topics); err != nil {
		return s.tally, err
	}
	defer s.cl.Close()
	for _, topic := range topics {
		if s.full() {
			break
		}
		if err := s.topic(ctx, topic, partitions[topic]); err != nil {
			return s.tally, err
		}
	}
	for id := range s.named {
		s.tally.Missing = append(s.tally.Missing, id)
	}
	slices.SortFunc(s.tally.Missing, compareIDs)
	slices.SortFunc(s.tally.Settled, compareIDs)
	return s.tally, nil
}

func compareIDs(a, b deadletter.RecordID) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
}

func (s *command) connect(ctx context.Context, topics []string) error {
	cl, err := broker.NewClient(&s.o.Connection, topics)
	if err != nil {
		return err
	}
	if err = cl.Ping(ctx); err == nil {
		s.layout, err = broker.RequireTopics(ctx, &s.o.Connection, topics, topics)
	}
	if err != nil {
		cl.Close()
		return err
	}
	s.cl = cl
	return nil
}

// partitions are those asked for, or all.
func (s *command) partitions(topic string, asked []int) ([]int, error) {
	var all []int
	for _, p := range s.layout[topic].Partitions {
		all = append(all, p.ID)
	}
	if len(asked) == 0 {
		asked = all
	}
	for _, id := range asked {
		if !slices.Contains(all, id) {
			return nil, fault.New("partition", id, fmt.Sprintf("topic %s has %d of them", topic, len(all)))
		}
	}
	slices.Sort(asked)
	return asked, nil
}

func (s *command) topic(ctx context.Context, topic string, asked []int) error {
	ids, err := s.partitions(topic, asked)
	if err != nil {
		return err
	}
	if s.settles {
		s.warnOfForgetting(ctx, topic)
	}
	var hold *membership
	var gen int32
	if s.settles && !s.dry {
		if hold, err = joinAlone(ctx, s.o, s.cl, topic); err != nil {
			return err
		}
		defer hold.release()
		held, err := hold.get(ctx)
		if err != nil {
			return err
		}
		gen = held.ID
	}
	places, err := s.positions(ctx, topic, ids)
	if err != nil {
		return err
	}
	passes := make([]*scan, len(ids))
	for i, id := range ids {
		passes[i] = s.newPass(topic, id, places[id], hold, gen)
	}
	for _, p := range passes {
		if err := p.run(ctx); err != nil || s.full() {
			return err
		}
	}
	return nil
}

// full: no more letters are wanted. A list goes on, for the count.
func (s *command) full() bool {
	return s.settles && s.f.Limit > 0 && s.tally.Matched >= int64(s.f.Limit)
}
