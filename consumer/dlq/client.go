package dlq

import (
	"context"
	"errors"
	"fmt"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/offsets"
	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/fault"
)

// Options configures a [Client]. A zero field means its default.
type Options struct {
	broker.Connection

	Group     string   // prefix, as in the consumer's options: the group is <group>.<topic>.dlq
	JobTopics []string // the consumer's topics: no command takes their records for dead letters, whatever the topics are called

	// Progress is called with the number of offsets read so far, and of all offsets to
	// read; the latter may grow. It may be nil.
	Progress func(read, all int64)

	// Settled is called with what Replay or Drop has done so far, after each batch and each
	// read. It may be nil.
	Settled func(Tally)
}

// Client lists, replays and drops dead letters. See the package's documentation.
type Client struct{ opts Options }

// New checks the options. It does not connect.
func New(o Options) (*Client, error) {
	o.SetDefaults()
	err := o.Validate()
	if !topicname.Valid(o.Group) {
		err = errors.Join(err, fault.New("group", o.Group, topicname.Rule))
	}
	if err != nil {
		return nil, fmt.Errorf("dlq options: %w", err)
	}
	if o.Progress == nil {
		o.Progress = func(int64, int64) {}
	}
	if o.Settled == nil {
		o.Settled = func(Tally) {}
	}
	return &Client{opts: o}, nil
}

// List calls each for the open letters that the filter picks, partition by partition. It ends
// where the log of a partition ended when List came to its topic. The letter is valid during that call. An
// error of each ends the list. Beside an error the tally says how far List came.
func (l *Client) List(ctx context.Context, f Filter, each func(*deadletter.Letter) error) (Tally, error) {
	c := &command{opts: &l.opts, filter: &f, batch: 1} // each sees a letter at once, also where ctx ends soon
	return c.run(ctx, func(_ context.Context, letters []deadletter.Letter) ([]deadletter.Letter, error) {
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
	c := &command{opts: &l.opts, filter: &Filter{IDs: []deadletter.RecordID{id}}}
	topics, partitions, err := c.filter.plan(l.opts.JobTopics)
	if err != nil {
		return nil, err
	}
	if err := c.connect(ctx, topics); err != nil {
		return nil, err
	}
	defer c.client.Close()
	if _, err := c.partitions(id.Topic, partitions[id.Topic]); err != nil {
		return nil, err
	}
	positions, err := c.positions(ctx, id.Topic, []int{id.Partition})
	if err != nil {
		return nil, err
	}
	at := positions[id.Partition]
	switch {
	case id.Offset < at.LogStart:
		return nil, fmt.Errorf("letter %s is gone: the log begins at offset %d", id, at.LogStart)
	case id.Offset >= at.LogEnd:
		return nil, fmt.Errorf("letter %s does not exist: the log ends before offset %d", id, at.LogEnd)
	}
	rec, found, err := readRecord(ctx, c.client, id)
	if err == nil && !found {
		err = fmt.Errorf("letter %s does not exist: there is no record at that offset", id)
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

// Drop settles the letters that the filter picks without replaying them. With dry, it only
// counts them. Beside an error it returns what was done until then.
func (l *Client) Drop(ctx context.Context, f Filter, dry bool) (Tally, error) {
	c := &command{opts: &l.opts, filter: &f, settles: true, dry: dry}
	return c.run(ctx, func(_ context.Context, letters []deadletter.Letter) ([]deadletter.Letter, error) { return letters, nil })
}
