package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"dispatcher/job"

	"github.com/segmentio/kafka-go"
)

// What is worked at once. A commit follows each such batch.
const (
	letterBatch      = 500
	letterBatchBytes = 4 << 20
)

// letterWork does with letters what a command is for, and returns those that it
// is done with, which may be some beside an error.
type letterWork func(context.Context, []Letter) ([]Letter, error)

// letterSession is one command at work.
type letterSession struct {
	o       *LettersOptions
	f       *LetterFilter
	settles bool
	dry     bool
	work    letterWork
	batch   int // letters

	cl     *client
	layout map[string]kafka.Topic
	tally  LetterTally

	passed, all int64             // offsets
	named       map[RecordID]bool // and not met yet
}

func (s *letterSession) group(topic string) string { return s.o.Group + "." + topic }

// run brings the letters before the work, partition by partition.
func (s *letterSession) run(ctx context.Context, work letterWork) (LetterTally, error) {
	s.work, s.tally.Classes = work, map[Class]int64{}
	orDefault(&s.batch, letterBatch)
	topics, partitions, err := s.f.plan()
	if err != nil {
		return s.tally, err
	}
	s.named = make(map[RecordID]bool, len(s.f.IDs))
	for _, id := range s.f.IDs {
		s.named[id] = true
	}
	if err := s.connect(ctx, topics); err != nil {
		return s.tally, err
	}
	defer s.cl.close()
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
	return s.tally, nil
}

func compareIDs(a, b RecordID) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
}

func (s *letterSession) connect(ctx context.Context, topics []string) error {
	cl, err := newClient(&s.o.Connection, topics)
	if err != nil {
		return err
	}
	if err = cl.greet(ctx); err == nil {
		s.layout, err = topicLayout(ctx, &s.o.Connection, topics, topics)
	}
	if err != nil {
		cl.close()
		return err
	}
	s.cl = cl
	return nil
}

// partitions are those asked for, or all.
func (s *letterSession) partitions(topic string, asked []int) ([]int, error) {
	var all []int
	for _, p := range s.layout[topic].Partitions {
		all = append(all, p.ID)
	}
	if len(asked) == 0 {
		asked = all
	}
	for _, id := range asked {
		if !slices.Contains(all, id) {
			return nil, fault("partition", id, fmt.Sprintf("topic %s has %d of them", topic, len(all)))
		}
	}
	slices.Sort(asked)
	return asked, nil
}

func (s *letterSession) topic(ctx context.Context, topic string, asked []int) error {
	ids, err := s.partitions(topic, asked)
	if err != nil {
		return err
	}
	var hold *letterHold
	var gen int32
	if s.settles && !s.dry {
		if hold, err = newLetterHold(ctx, s.o, s.cl, topic); err != nil {
			return err
		}
		defer hold.release()
		held, err := hold.get(ctx)
		if err != nil {
			return err
		}
		gen = held.ID
	}
	places, err := s.places(ctx, topic, ids)
	if err != nil {
		return err
	}
	passes := make([]*letterPass, len(ids))
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
func (s *letterSession) full() bool {
	return s.settles && s.f.Limit > 0 && s.tally.Matched >= int64(s.f.Limit)
}

// letterPass goes through the letters of one partition.
type letterPass struct {
	s      *letterSession
	book   *book
	reader *letterReader
	named  int // letters asked for by name that lie ahead

	batch []Letter // for the work
	bytes int
}

func (s *letterSession) newPass(topic string, id int, at place, hold *letterHold, gen int32) *letterPass {
	b := s.newBook(topic, id, at, hold, gen)
	p := &letterPass{s: s, book: b, reader: newLetterReader(s.cl, topic, id, b.ledger.base, at.last)}
	s.all += max(0, at.last-b.ledger.base)
	for name := range s.named {
		switch {
		case name.Topic != topic || name.Partition != id:
		case name.Offset < at.first: // gone, and so it stays among the missing
		case name.Offset < b.ledger.base:
			s.closed(name)
		default:
			p.named++
		}
	}
	return p
}

func (s *letterSession) closed(id RecordID) {
	delete(s.named, id)
	s.tally.Closed = append(s.tally.Closed, id)
}

func (p *letterPass) run(ctx context.Context) error {
	for !p.finished() {
		from := p.reader.at
		records, err := p.reader.next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(err, p.flush(ctx))
		}
		for i := range records {
			if err := p.see(ctx, records[i]); err != nil {
				return err
			}
			if p.finished() {
				break
			}
		}
		p.s.passed += min(p.reader.at, p.reader.end) - from
		p.s.o.Progress(p.s.passed, p.s.all)
	}
	return p.flush(ctx)
}

func (p *letterPass) finished() bool {
	return p.s.full() || len(p.s.f.IDs) > 0 && p.named == 0
}

// see takes in the next record of the partition.
func (p *letterPass) see(ctx context.Context, rec job.Record) error {
	id := RecordID{rec.Topic, rec.Partition, rec.Offset}
	at, err := p.admit(ctx, rec.Offset)
	if err != nil {
		return err
	}
	named := p.meet(id, at == admitSkip)
	if at == admitSkip {
		return nil
	}
	l, s := newLetter(rec), p.s
	s.tally.saw(&l)
	if !named || !s.f.matches(&l) {
		return nil
	}
	s.tally.Matched++
	switch {
	case s.settles && at == admitFull:
		s.tally.OutOfReach++
		s.tally.note(fmt.Sprintf("letters of %s/%d from offset %d on lie too far behind the open letter %s/%d/%d to be settled before it",
			rec.Topic, rec.Partition, p.book.ledger.base+spanCap, rec.Topic, rec.Partition, p.book.ledger.base))
		return nil
	case s.f.Limit > 0 && s.tally.Matched > int64(s.f.Limit):
		return nil
	}
	p.batch = append(p.batch, l)
	p.bytes += recordBytes(&l.Record)
	if len(p.batch) < s.batch && p.bytes < letterBatchBytes {
		return nil
	}
	return p.flush(ctx)
}

// admit asks the ledger, and once more when settling what waits has moved it.
func (p *letterPass) admit(ctx context.Context, offset int64) (admission, error) {
	at := p.book.ledger.admit(offset)
	if at != admitFull || len(p.batch) == 0 || !p.s.settles {
		return at, nil
	}
	if err := p.flush(ctx); err != nil {
		return at, err
	}
	return p.book.ledger.admit(offset), nil
}

// meet strikes a letter off the list of those asked for by name. It returns
// whether the letter is wanted as far as names go.
func (p *letterPass) meet(id RecordID, settled bool) bool {
	if !p.s.named[id] {
		return len(p.s.f.IDs) == 0
	}
	p.named--
	if settled {
		p.s.closed(id)
	}
	delete(p.s.named, id)
	return true
}

// flush has the work done, and what it came to committed.
func (p *letterPass) flush(ctx context.Context) error {
	s := p.s
	if ctx.Err() != nil {
		return ctx.Err() // what was done before has been committed
	}
	if p.book.hold != nil && len(p.batch) > 0 {
		if _, err := p.book.current(ctx); err != nil {
			return err
		}
		p.dropSettled()
	}
	var err error
	if len(p.batch) > 0 {
		var done []Letter
		done, err = s.work(ctx, p.batch)
		s.tally.Done += int64(len(done))
		for i := range done {
			if s.settles {
				p.book.ledger.complete(done[i].ID.Offset)
			}
		}
	}
	p.batch, p.bytes = p.batch[:0], 0
	return errors.Join(err, p.book.save(ctx))
}

// dropSettled leaves out what another command has settled since it was read.
func (p *letterPass) dropSettled() {
	l := &p.book.ledger
	before := len(p.batch)
	p.batch = slices.DeleteFunc(p.batch, func(x Letter) bool { return x.ID.Offset < l.base || l.marked(x.ID.Offset) })
	if gone := int64(before - len(p.batch)); gone > 0 {
		p.s.tally.Open -= gone
		p.s.tally.Matched -= gone
		p.s.tally.note("another command settled letters in between; they are not counted")
	}
}
