package dlq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"dispatcher/consumer/deadletter"

	"dispatcher/consumer/internal/broker"

	"dispatcher/consumer/internal/offsets"

	"dispatcher/job"
)

// scan goes through the letters of one partition.
type scan struct {
	s      *command
	state  *partitionState
	reader *reader
	named  int // letters asked for by name that lie ahead

	batch []deadletter.Letter // for the work
	bytes int
}

func (s *command) newPass(topic string, id int, at offsets.Position, hold *membership, gen int32) *scan {
	b := s.newState(topic, id, at, hold, gen)
	p := &scan{s: s, state: b, reader: newReader(s.cl, topic, id, b.tracker.Low(), at.LogEnd)}
	s.all += max(0, at.LogEnd-b.tracker.Low())
	for name := range s.named {
		switch {
		case name.Topic != topic || name.Partition != id:
		case name.Offset < at.LogStart: // gone, and so it stays among the missing
		case name.Offset < b.tracker.Low():
			s.alreadySettled(name)
		default:
			p.named++
		}
	}
	return p
}

func (s *command) alreadySettled(id deadletter.RecordID) {
	delete(s.named, id)
	s.tally.Settled = append(s.tally.Settled, id)
}

func (p *scan) run(ctx context.Context) error {
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
			if err := p.take(ctx, records[i]); err != nil {
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

func (p *scan) finished() bool {
	return p.s.full() || len(p.s.f.IDs) > 0 && p.named == 0
}

// take takes in the next record of the partition.
func (p *scan) take(ctx context.Context, rec job.Record) error {
	id := deadletter.RecordID{Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset}
	at, err := p.admit(ctx, rec.Offset)
	if err != nil {
		return err
	}
	named := p.wanted(id, at == offsets.AlreadyComplete)
	if at == offsets.AlreadyComplete {
		return nil
	}
	l, s := deadletter.ReadLetter(rec), p.s
	s.tally.saw(&l)
	if !named || !s.f.matches(&l) {
		return nil
	}
	s.tally.Matched++
	switch {
	case s.settles && at == offsets.BeyondWindow:
		s.tally.OutOfReach++
		s.tally.note(fmt.Sprintf("letters of %s/%d from offset %d on lie too far behind the open letter %s/%d/%d to be settled before it",
			rec.Topic, rec.Partition, p.state.tracker.Low()+offsets.Window, rec.Topic, rec.Partition, p.state.tracker.Low()))
		return nil
	case s.f.Limit > 0 && s.tally.Matched > int64(s.f.Limit):
		return nil
	}
	p.batch = append(p.batch, l)
	p.bytes += broker.RecordBytes(&l.Record)
	if len(p.batch) < s.batch && p.bytes < batchBytes {
		return nil
	}
	return p.flush(ctx)
}

// admit asks the ledger, and once more when settling what waits has moved it.
func (p *scan) admit(ctx context.Context, offset int64) (offsets.Admission, error) {
	at := p.state.tracker.Admit(offset)
	if at != offsets.BeyondWindow || len(p.batch) == 0 || !p.s.settles {
		return at, nil
	}
	if err := p.flush(ctx); err != nil {
		return at, err
	}
	return p.state.tracker.Admit(offset), nil
}

// wanted strikes a letter off the list of those asked for by name. It returns
// whether the letter is wanted as far as names go.
func (p *scan) wanted(id deadletter.RecordID, settled bool) bool {
	if !p.s.named[id] {
		return len(p.s.f.IDs) == 0
	}
	p.named--
	if settled {
		p.s.alreadySettled(id)
	}
	delete(p.s.named, id)
	return true
}

// flush has the work done, and what it came to committed.
func (p *scan) flush(ctx context.Context) error {
	s := p.s
	if ctx.Err() != nil {
		return ctx.Err() // what was done before has been committed
	}
	if p.state.membership != nil && len(p.batch) > 0 {
		if _, err := p.state.current(ctx); err != nil {
			return err
		}
		p.dropSettled()
	}
	var err error
	if len(p.batch) > 0 {
		var done []deadletter.Letter
		done, err = s.work(ctx, p.batch)
		s.tally.Done += int64(len(done))
		for i := range done {
			if s.settles {
				p.state.tracker.Complete(done[i].ID.Offset)
			}
		}
	}
	p.batch, p.bytes = p.batch[:0], 0
	return errors.Join(err, p.state.save(ctx))
}

// dropSettled leaves out what another command has settled since it was read.
func (p *scan) dropSettled() {
	l := &p.state.tracker
	before := len(p.batch)
	p.batch = slices.DeleteFunc(p.batch, func(x deadletter.Letter) bool { return x.ID.Offset < l.Low() || l.IsComplete(x.ID.Offset) })
	if gone := int64(before - len(p.batch)); gone > 0 {
		p.s.tally.Open -= gone
		p.s.tally.Matched -= gone
		p.s.tally.note("another command settled letters in between; they are not counted")
	}
}
