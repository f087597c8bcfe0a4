package dlq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/batches"
	"dispatcher/consumer/internal/offsets"
	"dispatcher/internal/wait"
	"dispatcher/job"
)

// scan reads the letters of one partition and passes them to the handler in batches.
type scan struct {
	c      *command
	state  *partitionState
	reader *reader
	at     int64 // the offset that c.read counts up to
	named  int   // letters of the partition that the filter names and that are not read yet

	batch []deadletter.Letter
	bytes int
}

func (c *command) newScan(topic string, id int, at offsets.Position, m *membership, generation int32) *scan {
	state := c.newState(topic, id, at, m, generation)
	from := state.tracker.Low()
	if after := c.filter.After; after.Topic == topic && after.Partition == id {
		from = max(from, after.Offset+1)
	}
	s := &scan{c: c, state: state, reader: newReader(c.client, topic, id, from, at.LogEnd), at: from}
	c.all += max(0, at.LogEnd-from)
	for name := range c.named {
		switch {
		case name.Topic != topic || name.Partition != id:
		case name.Offset < at.LogStart: // deleted: it stays among the missing ones
		case name.Offset < state.tracker.Low():
			c.alreadySettled(name)
		default:
			s.named++
		}
	}
	return s
}

func (c *command) alreadySettled(id deadletter.RecordID) {
	delete(c.named, id)
	c.tally.Settled = append(c.tally.Settled, id)
}

func (s *scan) run(ctx context.Context) error {
	for !s.finished() {
		records, err := s.reader.next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(err, s.flush(ctx))
		}
		for i := range records {
			if err := s.add(ctx, records[i]); err != nil {
				return err
			}
			s.passed(records[i].Offset + 1)
			s.c.tally.ReadTo = deadletter.RecordID{Topic: records[i].Topic, Partition: records[i].Partition, Offset: records[i].Offset}
			if s.finished() {
				break
			}
		}
		s.passed(min(s.reader.at, s.reader.end))
		s.c.report()
	}
	err := s.flush(ctx)
	s.c.report()
	return err
}

// passed counts the offsets before to as read.
func (s *scan) passed(to int64) {
	s.c.read += to - s.at
	s.at = to
}

func (s *scan) finished() bool {
	return s.c.limitReached() || len(s.c.filter.IDs) > 0 && s.named == 0
}

// add adds the next record of the partition to the batch, if the filter picks it.
func (s *scan) add(ctx context.Context, rec job.Record) error {
	id := deadletter.RecordID{Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset}
	admission, err := s.admit(ctx, rec.Offset)
	if err != nil {
		return err
	}
	picked := s.pickedByID(id, admission == offsets.AlreadyComplete)
	if admission == offsets.AlreadyComplete {
		return nil
	}
	l, c := deadletter.ReadLetter(rec), s.c
	c.tally.addOpen(&l)
	if !picked || !c.filter.matches(&l) {
		return nil
	}
	c.tally.Matched++
	switch {
	case c.settles && admission == offsets.BeyondWindow:
		c.tally.OutOfReach++
		low := s.state.tracker.Low()
		c.tally.note(fmt.Sprintf("letters of %s/%d from offset %d on lie too far behind the open letter %s/%d/%d to be settled before it",
			rec.Topic, rec.Partition, low+offsets.Window, rec.Topic, rec.Partition, low))
		return nil
	case c.filter.Limit > 0 && c.tally.Matched > int64(c.filter.Limit):
		return nil
	}
	s.batch = append(s.batch, l)
	s.bytes += batches.RecordBytes(&l.Record)
	if len(s.batch) < c.batch && s.bytes < batchBytes {
		return nil
	}
	err = s.flush(ctx)
	if c.settles {
		c.report()
	}
	return err
}

// admit opens an offset in the tracker. If the offset is beyond the window, admit settles the
// batch first, since that may move the window, and tries again.
func (s *scan) admit(ctx context.Context, offset int64) (offsets.Admission, error) {
	admission := s.state.tracker.Admit(offset)
	if admission != offsets.BeyondWindow || len(s.batch) == 0 || !s.c.settles {
		return admission, nil
	}
	if err := s.flush(ctx); err != nil {
		return admission, err
	}
	return s.state.tracker.Admit(offset), nil
}

// pickedByID tells whether the filter names the letter, or names no letters. It also strikes
// the letter off the list of those not read yet.
func (s *scan) pickedByID(id deadletter.RecordID, settled bool) bool {
	if !s.c.named[id] {
		return len(s.c.filter.IDs) == 0
	}
	s.named--
	if settled {
		s.c.alreadySettled(id)
	}
	delete(s.c.named, id)
	return true
}

// flush passes the batch to the handler when the rate allows it, and commits the letters that
// are done. Another command may settle letters during the wait, so the check follows it.
func (s *scan) flush(ctx context.Context) error {
	if len(s.batch) > 0 {
		wait.For(ctx, time.Until(s.c.due))
	}
	if ctx.Err() != nil {
		return ctx.Err() // earlier batches are committed
	}
	if s.state.membership != nil && len(s.batch) > 0 {
		if _, err := s.state.current(ctx); err != nil {
			return err
		}
		s.dropSettled()
	}
	var err error
	if len(s.batch) > 0 {
		var done []deadletter.Letter
		done, err = s.c.handle(ctx, s.batch)
		s.c.tally.Done += int64(len(done))
		s.c.due = s.c.next(len(done))
		for i := range done {
			if s.c.settles {
				s.state.tracker.Complete(done[i].ID.Offset)
			}
		}
	}
	s.batch, s.bytes = s.batch[:0], 0
	return errors.Join(err, s.state.save(ctx))
}

// dropSettled drops letters that another command has settled since they were read.
func (s *scan) dropSettled() {
	t := &s.state.tracker
	before := len(s.batch)
	s.batch = slices.DeleteFunc(s.batch, func(l deadletter.Letter) bool {
		settled := l.ID.Offset < t.Low() || t.IsComplete(l.ID.Offset)
		if settled {
			s.c.tally.uncount(l.Class)
		}
		return settled
	})
	if before > len(s.batch) {
		s.c.tally.note("another command settled letters in between; they are not counted")
	}
}
