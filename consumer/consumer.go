package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Why a delivery's context ended; ask with [context.Cause].
var (
	// ErrRevoked: the partition goes to another node, or this node has lost
	// its place in the group.
	ErrRevoked = errors.New("the partition was taken away")
	// ErrStopped: the consumer stops.
	ErrStopped = errors.New("the consumer stops")
)

// Consumer takes jobs from the topics of one node. Make it with [New]; it can
// be run once.
type Consumer struct {
	opts    Options
	client  *client
	hub     *hub
	results *Results // nil: none are written
	metrics *metrics
	state   state
}

// New checks the options and prepares a consumer. It does not connect. Its
// error joins every fault, each naming the field and the value.
func New(o Options) (*Consumer, error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("consumer options: %w", err)
	}
	known := companions(o.Topics)
	if o.Results {
		known = append(known, resultsTopics(o.Topics)...)
	}
	cl, err := newClient(&o.Connection, known)
	if err != nil {
		return nil, fmt.Errorf("consumer options: %w", err)
	}
	c := &Consumer{opts: o, client: cl, hub: newHub(o.InHand)}
	c.metrics = newMetrics(o.Topics)
	c.hub.dead = newDeadLetters(&o, cl, c.metrics, c.hub)
	if c.results, err = makeResults(&o, cl, &c.state); err != nil {
		return nil, err
	}
	if o.Registerer != nil {
		if err := errors.Join(o.Registerer.Register(c.metrics), o.Registerer.Register(gauges{c})); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return c, nil
}

// companions adds the dead-letter topics.
func companions(topics []string) []string {
	all := make([]string, 0, 2*len(topics))
	for _, t := range topics {
		all = append(all, t, deadTopic(t))
	}
	return all
}

// Deliveries is where jobs come out, in the order in which they were handed
// out. Whoever takes from it goes on until Run closes it, and settles each one,
// also those whose context has ended: a job that nobody takes holds up the
// drain.
func (c *Consumer) Deliveries() <-chan *Delivery { return c.hub.out }

// Run consumes until ctx ends, and returns nil after the drain, the last
// commit and leaving the groups. While no broker can be reached it keeps
// trying. It returns an error, after the same steps, when a topic is missing,
// when credentials or a certificate are refused, or when the cluster forbids
// what the configuration asks for.
func (c *Consumer) Run(ctx context.Context) error {
	defer c.hub.finish()
	defer c.client.close()
	if err := c.prepare(ctx); err != nil || ctx.Err() != nil {
		c.hub.dead.close()
		if err != nil {
			c.state.failed(err)
		}
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var groups sync.WaitGroup
	for _, topic := range c.opts.Topics {
		g := &group{c: c, topic: topic, id: c.opts.Group + "." + topic}
		groups.Go(func() {
			if err := g.run(ctx); err != nil {
				stop(fmt.Errorf("topic %s: %w", topic, err))
			}
		})
	}
	groups.Wait()
	c.results.close()
	c.hub.dead.close()
	return c.outcome(ctx)
}

// outcome is nil when the caller ended the run.
func (c *Consumer) outcome(ctx context.Context) error {
	err := context.Cause(ctx)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ctx.Err()) {
		return nil
	}
	c.state.failed(err)
	return err
}
