package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"dispatcher/consumer/deadletter"

	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/offsets"

	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/fault"
)

// Options configures [Client]. A zero field means its default.
type Options struct {
	broker.Connection

	Group string // prefix, as of the consumer: <group>.<topic>.dlq remembers what is settled

	// Progress is told how many offsets have been passed, of those that are to
	// be; the latter may grow. nil: nobody asks.
	Progress func(passed, all int64)
}

// Client is an operator's way to the dead letters: to look at them, and to
// settle each by replaying or dropping it. The consumer never reads them.
//
// # What is settled
//
// Kafka remembers it, as it does for jobs: the committed offset of the group
// <group>.<topic>.dlq, and as metadata the marks beyond it, in format v1. The
// marks reach 8192 offsets beyond the first open letter. A letter further away
// can be settled only when those before it are.
//
// Kafka forgets a group's offsets when nothing was committed for its
// offsets.retention.minutes, a week by default. Then all letters that the topic
// still holds are open again.
//
// # Several at once
//
// Replay and Drop hold the group's membership while they work, with all
// partitions; others wait for that. So reading and writing back what is settled
// is one step, and a letter is not replayed by two commands at a time. One that
// dies between the write of a batch and its commit leaves those letters open,
// and they will be replayed again, under the same job ids.
//
// Its methods may be called from any goroutine. Each connects anew and leaves
// nothing behind.
type Client struct{ opts Options }

// New checks the options. It does not connect.
func New(o Options) (*Client, error) {
	o.SetDefaults()
	err := o.Validate()
	if !topicname.Valid(o.Group) {
		err = errors.Join(err, fault.New("group", o.Group, topicname.Rule))
	}
	if err != nil {
		return nil, fmt.Errorf("letters options: %w", err)
	}
	if o.Progress == nil {
		o.Progress = func(int64, int64) {}
	}
	return &Client{opts: o}, nil
}

// Tally is what a command came to. Open counts the letters it looked at
// that were not settled; Matched those of them that the filter picks, and all
// that follow Matched are parts of it.
type Tally struct {
	Open    int64
	Matched int64
	Done    int64                      // listed, replayed or dropped; of a dry run: would be
	Classes map[deadletter.Class]int64 // the open ones by class

	Truncated  int64 // not replayed: only a part of the job is there
	NoTopic    int64 // not replayed: their topic is not known or does not exist
	Unwritten  int64 // not replayed: Kafka did not take them, or did not say so
	OutOfReach int64 // not settled: more than 8192 offsets beyond an open letter

	Settled []deadletter.RecordID // named, and settled already
	Missing []deadletter.RecordID // named, and no letter lies there
	Notes   []string              // what a person should know, a sentence each
}

// Left is how many letters were asked for and are not done.
func (t *Tally) Left() int64 {
	return t.Truncated + t.NoTopic + t.Unwritten + t.OutOfReach + int64(len(t.Settled)+len(t.Missing))
}

// The classes in a tally are what letters say, so they are bounded; as are notes.
const (
	maxClasses = 64
	maxNotes   = 20
)

func (t *Tally) saw(l *deadletter.Letter) {
	t.Open++
	if _, known := t.Classes[l.Class]; known || len(t.Classes) < maxClasses {
		t.Classes[l.Class]++
	}
}

func (t *Tally) note(text string) {
	if len(t.Notes) < maxNotes && !slices.Contains(t.Notes, text) {
		t.Notes = append(t.Notes, text)
	}
}

// List gives each of the open letters that the filter picks, partition by
// partition, from those that are at the start; with a limit so many. It
// ends with the first error of each, whose letter is valid during the call.
func (l *Client) List(ctx context.Context, f Filter, each func(*deadletter.Letter) error) (Tally, error) {
	s := &command{o: &l.opts, f: &f}
	return s.run(ctx, func(_ context.Context, letters []deadletter.Letter) ([]deadletter.Letter, error) {
		for i := range letters {
			letters[i].JobID = letters[i].FindJobID()
			if err := each(&letters[i]); err != nil {
				return letters[:i], err
			}
		}
		return letters, nil
	})
}

// Get reads one letter, settled or not.
func (l *Client) Get(ctx context.Context, id deadletter.RecordID) (*deadletter.Letter, error) {
	f := Filter{IDs: []deadletter.RecordID{id}}
	s := &command{o: &l.opts, f: &f}
	topics, partitions, err := f.plan()
	if err != nil {
		return nil, err
	}
	if err := s.connect(ctx, topics); err != nil {
		return nil, err
	}
	defer s.cl.Close()
	if _, err := s.partitions(id.Topic, partitions[id.Topic]); err != nil {
		return nil, err
	}
	places, err := s.positions(ctx, id.Topic, []int{id.Partition})
	if err != nil {
		return nil, err
	}
	at := places[id.Partition]
	switch {
	case id.Offset < at.LogStart:
		return nil, fmt.Errorf("letter %s is gone: the log begins at offset %d", id, at.LogStart)
	case id.Offset >= at.LogEnd:
		return nil, fmt.Errorf("letter %s does not exist: the log ends before offset %d", id, at.LogEnd)
	}
	rec, found, err := readRecord(ctx, s.cl, id)
	if err == nil && !found {
		err = fmt.Errorf("letter %s does not exist: what lies there is no record", id)
	}
	if err != nil {
		return nil, err
	}
	letter := deadletter.ReadLetter(rec)
	letter.JobID = letter.FindJobID()
	base, m, _ := at.Resolve(false)
	letter.Settled = id.Offset < base || id.Offset-base < offsets.Window && m.Bitmap.Has(id.Offset-base)
	return &letter, nil
}

// Drop settles the letters that the filter picks. dry only counts them.
// An error comes beside what was done until then.
func (l *Client) Drop(ctx context.Context, f Filter, dry bool) (Tally, error) {
	s := &command{o: &l.opts, f: &f, settles: true, dry: dry}
	return s.run(ctx, func(_ context.Context, letters []deadletter.Letter) ([]deadletter.Letter, error) { return letters, nil })
}
