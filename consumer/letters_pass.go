package consumer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"dispatcher/consumer/internal/offsets"

	"dispatcher/job"
)

// letterPass goes through the letters of one partition.
type letterPass struct {
	s      *letterSession
	book   *book
	reader *letterReader
	named  int // letters asked for by name that lie ahead

	batch []Letter // for the work
	bytes int
}

func (s *letterSession) newPass(topic string, id int, at offsets.Position, hold *letterHold, gen int32) *letterPass {
	b := s.newBook(topic, id, at, hold, gen)
	p := &letterPass{s: s, book: b, reader: newLetterReader(s.cl, topic, id, b.tracker.Low(), at.LogEnd)}
	s.all += max(0, at.LogEnd-b.tracker.Low())
	for name := range s.named {
		switch {
		case name.Topic != topic || name.Partition != id:
		case name.Offset < at.LogStart: // gone, and so it stays among the missing
		case name.Offset < b.tracker.Low():
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
	named := p.meet(id, at == offsets.AlreadyComplete)
	if at == offsets.AlreadyComplete {
		return nil
	}
	l, s := newLetter(rec), p.s
	s.tally.saw(&l)
	if !named || !s.f.matches(&l) {
		return nil
	}
	s.tally.Matched++
	switch {
	case s.settles && at == offsets.BeyondWindow:
		s.tally.OutOfReach++
		s.tally.note(fmt.Sprintf("letters of %s/%d from offset %d on lie too far behind the open letter %s/%d/%d to be settled before it",
			rec.Topic, rec.Partition, p.book.tracker.Low()+offsets.Window, rec.Topic, rec.Partition, p.book.tracker.Low()))
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

// Admit asks the ledger, and once more when settling what waits has moved it.
func (p *letterPass) admit(ctx context.Context, offset int64) (offsets.Admission, error) {
	at := p.book.tracker.Admit(offset)
	if at != offsets.BeyondWindow || len(p.batch) == 0 || !p.s.settles {
		return at, nil
	}
	if err := p.flush(ctx); err != nil {
		return at, err
	}
	return p.book.tracker.Admit(offset), nil
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
				p.book.tracker.Complete(done[i].ID.Offset)
			}
		}
	}
	p.batch, p.bytes = p.batch[:0], 0
	return errors.Join(err, p.book.save(ctx))
}

// dropSettled leaves out what another command has settled since it was read.
func (p *letterPass) dropSettled() {
	l := &p.book.tracker
	before := len(p.batch)
	p.batch = slices.DeleteFunc(p.batch, func(x Letter) bool { return x.ID.Offset < l.Low() || l.IsComplete(x.ID.Offset) })
	if gone := int64(before - len(p.batch)); gone > 0 {
		p.s.tally.Open -= gone
		p.s.tally.Matched -= gone
		p.s.tally.note("another command settled letters in between; they are not counted")
	}
}
