package dlq

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/fault"

	"github.com/segmentio/kafka-go"
)

// Bounds of a batch. A commit follows each batch.
const (
	batchLetters = 500
	batchBytes   = 4 << 20
)

// handler does the work of a command on a batch of letters. It returns the letters that are
// done, which may be some of them beside an error.
type handler func(context.Context, []deadletter.Letter) ([]deadletter.Letter, error)

// command is one run of List, Get, Replay or Drop.
type command struct {
	opts    *Options
	filter  *Filter
	settles bool
	dry     bool
	handle  handler
	batch   int       // letters in a batch, at most
	rate    float64   // letters a second at most; 0: no limit
	due     time.Time // when the rate allows the next batch

	client *broker.Client
	layout map[string]kafka.Topic
	ids    map[string]topicname.ID // of the topics; missing: not asked for yet; zero: the broker has no ids
	tally  Tally

	read, all int64                        // offsets, for Options.Progress
	named     map[deadletter.RecordID]bool // letters named by the filter and not read yet
}

func (c *command) group(topic string) string { return c.opts.Group + "." + topic }

// run passes the letters that the filter picks to the handler, partition by partition.
func (c *command) run(ctx context.Context, handle handler) (Tally, error) {
	c.handle, c.tally.Classes = handle, map[deadletter.Class]int64{}
	c.batch = cmp.Or(c.batch, batchLetters)
	topics, partitions, err := c.filter.plan(c.opts.JobTopics)
	if err != nil {
		return c.tally, err
	}
	if c.settles && c.filter.After.Topic != "" { // it would settle those before it
		return c.tally, fault.New("after", c.filter.After, "is for lists only")
	}
	c.named = make(map[deadletter.RecordID]bool, len(c.filter.IDs))
	for _, id := range c.filter.IDs {
		c.named[id] = true
	}
	if err := c.connect(ctx, topics); err != nil {
		return c.tally, err
	}
	defer c.client.Close()
	for _, topic := range topics {
		if c.limitReached() {
			break
		}
		if err := c.topic(ctx, topic, partitions[topic]); err != nil {
			return c.tally, err
		}
	}
	for id := range c.named {
		c.tally.Missing = append(c.tally.Missing, id)
	}
	slices.SortFunc(c.tally.Missing, compareIDs)
	slices.SortFunc(c.tally.Settled, compareIDs)
	return c.tally, nil
}

// next is when the rate allows a batch after one of which so many letters are done.
func (c *command) next(done int) time.Time {
	if c.rate == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(float64(done) / c.rate * float64(time.Second)))
}

func compareIDs(a, b deadletter.RecordID) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
}

func (c *command) connect(ctx context.Context, topics []string) error {
	cl, err := broker.NewClient(&c.opts.Connection, topics)
	if err != nil {
		return err
	}
	if err = cl.Ping(ctx); err == nil {
		c.layout, err = broker.RequireTopics(ctx, &c.opts.Connection, topics, topics)
	}
	if err != nil {
		cl.Close()
		return err
	}
	c.client, c.ids = cl, make(map[string]topicname.ID, len(topics))
	return nil
}

// partitions returns the partitions asked for, or all if none is.
func (c *command) partitions(topic string, asked []int) ([]int, error) {
	var all []int
	for _, p := range c.layout[topic].Partitions {
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

func (c *command) topic(ctx context.Context, topic string, asked []int) error {
	ids, err := c.partitions(topic, asked)
	if err != nil {
		return err
	}
	if topic == c.filter.After.Topic {
		ids = slices.DeleteFunc(ids, func(id int) bool { return id < c.filter.After.Partition })
	}
	if c.settles {
		c.warnOfRetention(ctx, topic)
	}
	var m *membership
	var generation int32
	if c.settles && !c.dry {
		if m, err = joinAlone(ctx, c.opts, c.client, topic); err != nil {
			return err
		}
		defer m.leave()
		gen, err := m.get(ctx)
		if err != nil {
			return err
		}
		generation = gen.ID
	}
	positions, err := c.positions(ctx, topic, ids)
	if err != nil {
		return err
	}
	scans := make([]*scan, len(ids))
	for i, id := range ids {
		scans[i] = c.newScan(topic, id, positions[id], m, generation)
	}
	for _, s := range scans {
		if err := s.run(ctx); err != nil || c.limitReached() {
			return err
		}
	}
	return nil
}

// report passes on what was done so far.
func (c *command) report() {
	c.opts.Progress(c.read, c.all)
	if c.settles {
		t := c.tally
		t.Classes, t.Notes = maps.Clone(t.Classes), slices.Clone(t.Notes)
		c.opts.Settled(t)
	}
}

// limitReached tells whether no more letters are needed. A list continues, to count the open
// letters.
func (c *command) limitReached() bool {
	return c.settles && c.filter.Limit > 0 && c.tally.Matched >= int64(c.filter.Limit)
}
