package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/produce"
)

// Why a delivery's context ended; ask with [context.Cause].
var (
	// ErrRevoked: the partition goes to another node, or this node has lost
	// its place in the group.
	ErrRevoked = errors.New("the group rebalances: its partitions are handed out again")
	// ErrStopped: the consumer stops, or stands aside.
	ErrStopped = errors.New("the consumer leaves its groups")
)

// Consumer takes jobs from the topics of one node. Make it with [New]; it can
// be run once.
type Consumer struct {
	opts    Options
	client  *broker.Client
	feeds   []*feed
	hub     *hub
	writer  *produce.Writer
	results *Results // nil: none are written
	metrics *metrics
	state   state

	membership membership
	warned     map[string]bool // topics whose settings were warned of; prepare's
}

// New checks the options and prepares a consumer. It does not connect. Its
// error joins every fault, each naming the field and the value.
func New(o Options) (*Consumer, error) {
	o.setDefaults()
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("consumer options: %w", err)
	}
	cl, err := broker.NewClient(&o.Connection, o.allTopics())
	if err != nil {
		return nil, fmt.Errorf("consumer options: %w", err)
	}
	lanes, feeds := o.layout()
	c := &Consumer{opts: o, client: cl, feeds: feeds, hub: newHub(lanes, &o), metrics: newMetrics(feeds), warned: map[string]bool{}}
	if err := c.addWriter(); err != nil {
		return nil, err
	}
	if o.Registerer != nil {
		if err := errors.Join(o.Registerer.Register(c.metrics), o.Registerer.Register(gauges{c})); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return c, nil
}

// allTopics are the job topics with their companions.
func (o *Options) allTopics() []string {
	var all []string
	for _, t := range o.jobTopics() {
		all = append(append(all, t), o.companionsOf(t)...)
	}
	return all
}

// Ready is told when jobs have become ready, at least once after [Consumer.Take]
// last said that there is none. It is closed when Run is over. One goroutine is
// to receive from it.
func (c *Consumer) Ready() <-chan struct{} { return c.hub.ready }

// Take hands out the job that is to go next; nil: none is ready. It never
// blocks. Whoever takes a job settles it, also after its context has ended: a
// job that nobody settles holds up the drain.
func (c *Consumer) Take() *Delivery { return c.hub.take() }

// Waiting is how many jobs Take could hand out now. What is ready and not taken
// is dropped by itself when its partition goes away.
func (c *Consumer) Waiting() int { return c.hub.waiting() }

// Run consumes until ctx ends, and returns nil after the drain, the last
// commit and leaving the groups. While no broker can be reached it keeps
// trying. It returns an error, after the same steps, when a topic is missing,
// when credentials or a certificate are refused, or when the cluster forbids
// what the configuration asks for.
func (c *Consumer) Run(ctx context.Context) error {
	defer c.hub.finish()
	defer c.client.Close()
	defer c.writer.Close()
	if err := c.prepare(ctx); err != nil || ctx.Err() != nil {
		if err != nil {
			c.state.failed(err)
		}
		return err
	}
	var clock sync.WaitGroup
	late := make(chan struct{})
	clock.Go(func() { c.hub.keepTime(late) })
	clock.Go(func() { c.hub.dead.keepTelling(late) })
	var err error
	for err == nil && ctx.Err() == nil {
		if aside := c.membership.await(ctx, false); aside == nil {
			err = c.takePart(ctx)
		}
	}
	close(late)
	clock.Wait()
	return err
}

// takePart is a member of all groups until ctx ends, the node is to stand aside
// or a group fails. It returns the error of the latter.
func (c *Consumer) takePart(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	refusals := make(chan error, 1) // the first is enough
	var groups, watch sync.WaitGroup
	for _, f := range c.feeds {
		g := &group{c: c, feed: f, id: c.opts.Group + "." + f.topic}
		fail := func(err error) error {
			err = fmt.Errorf("topic %s: %w", f.topic, err)
			stop(err)
			return err
		}
		g.refuse = func(err error) {
			select {
			case refusals <- fail(err):
			default:
			}
		}
		groups.Go(func() {
			if err := g.run(ctx); err != nil {
				_ = fail(err)
			}
		})
	}
	watch.Go(func() {
		if why := c.membership.await(ctx, true); why != nil {
			stop(why)
		}
	})
	groups.Wait()
	err := c.outcome(ctx)
	stop(nil)
	watch.Wait()
	select {
	case err = <-refusals: // whatever else ended the membership
		c.state.failed(err)
	default:
	}
	return err
}

// outcome is nil when the caller ended the membership.
func (c *Consumer) outcome(ctx context.Context) error {
	err := context.Cause(ctx)
	if _, ok := errors.AsType[*asideError](err); ok {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ctx.Err()) {
		return nil
	}
	c.state.failed(err)
	return err
}
