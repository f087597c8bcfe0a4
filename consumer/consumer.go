package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/group"
	"dispatcher/consumer/internal/health"
	"dispatcher/consumer/internal/schedule"
	"dispatcher/consumer/internal/settle"
	"dispatcher/job"
)

// Consumer takes jobs from the topics of one node. Make it with [New]; it can be run once.
type Consumer struct {
	opts      Options
	client    *broker.Client
	sources   []*schedule.Source
	scheduler *schedule.Scheduler
	settler   *settle.Settler
	metrics   *group.Metrics
	health    health.Health

	membership membership
}

// New checks the options and prepares a consumer. It does not connect. Its error joins
// every fault, each naming the field and the value.
func New(o Options) (*Consumer, error) {
	o.setDefaults()
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("consumer options: %w", err)
	}
	cl, err := broker.NewClient(&o.Connection, o.allTopics())
	if err != nil {
		return nil, fmt.Errorf("consumer options: %w", err)
	}
	lanes, sources := o.layout()
	var topics []string
	for _, s := range sources {
		topics = append(topics, s.Topic)
	}
	c := &Consumer{opts: o, client: cl, sources: sources, metrics: group.NewMetrics(topics)}
	c.settler, err = settle.New(settle.Options{
		Connection: &c.opts.Connection, Health: &c.health, Log: o.Logger, Registerer: o.Registerer,
		Group: o.Group, Node: o.Node, ParkUnknown: o.ParkUnknown, Results: o.Results,
	})
	if err != nil {
		return nil, err
	}
	c.scheduler = schedule.New(schedule.Options{
		Lanes: lanes, Order: o.Order, RetryTopics: o.RetryTopics, JobTimeout: o.JobTimeout, BufferBytes: o.BufferBytes,
		MaxAsleep: o.MaxAsleep, MaxAsleepBytes: o.MaxAsleepBytes, Settler: c.settler, Log: o.Logger,
	})
	return c, c.register()
}

func (c *Consumer) register() error {
	if c.opts.Registerer == nil {
		return nil
	}
	for _, m := range append(c.metrics.Collectors(), prometheus.Collector(gauges{c})) {
		if err := c.opts.Registerer.Register(m); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

// Ready gets a notice when a lane gets its first job to take. After [Consumer.TakeFrom] has found none, there will be
// one as soon as there is a job. It is closed when Run is over. One goroutine is to receive from it.
func (c *Consumer) Ready() <-chan struct{} { return c.scheduler.Ready() }

// Take hands out the job that goes next, of the first lane that has one; nil: none is ready. It
// never blocks. The caller has to give the job up once, by a method of the delivery, PutBack or
// Defer, also after its context has ended: the drain waits for it.
func (c *Consumer) Take() *Delivery { return c.scheduler.Take() }

// TakeFrom is [Consumer.Take] for jobs of a lane, counted from 0.
func (c *Consumer) TakeFrom(lane int) *Delivery { return c.scheduler.TakeFrom(lane) }

// TakeSample hands out any fetched job, one that has not slept if there is one: its call tells more
// about the provider than that of a job which has failed. Where there is none, it is
// [Consumer.Take].
func (c *Consumer) TakeSample() *Delivery { return c.scheduler.TakeSample() }

// PutBack takes the last hand-outs back, in their order: the jobs go next again. Those whose
// partition was taken away are released.
func (c *Consumer) PutBack(jobs []*Delivery) { c.scheduler.PutBack(jobs) }

// Defer takes a hand-out back that a limit or an operator's rule does not let pass until a time. The job may be
// taken again then. It does not block.
func (c *Consumer) Defer(d *Delivery, o DeferOptions) { c.scheduler.Defer(d, o) }

// Resume ends the wait of deferred jobs before their time. It does not block.
func (c *Consumer) Resume(jobs []*Delivery) { c.scheduler.Resume(jobs) }

// Deferred is how many jobs wait for each limit and for each rule that holds jobs, by its name. Those that were taken again,
// diverted or dropped do not count.
func (c *Consumer) Deferred() map[string]int { return c.scheduler.Deferred() }

// Backlog is the fetched jobs of each lane that wait for their turn, and when those of them expire that have a not-after: in at
// most as many entries a lane as most says. It is cheap, however many jobs there are.
func (c *Consumer) Backlog(most int) []LaneBacklog { return c.scheduler.Backlog(most) }

// Piles are the ordering keys and values of limits that most jobs of this node wait for, at most as many as most says. It
// looks at as many of the oldest jobs as look says, in equal parts of the partitions, with a lock held. value is called meanwhile, and is to be fast.
func (c *Consumer) Piles(most, look int, value ValueOf) []Pile {
	return c.scheduler.Piles(most, look, value)
}

// Find returns the jobs of this node that a function matches, so many at most, and what they wait
// for. The function is called with a lock held, and is to be fast.
func (c *Consumer) Find(match func(*Delivery) bool, most int) []Stay {
	return c.scheduler.Find(match, most)
}

// ProgressOf says how far the partition of a place has come; false: this node does not work it.
func (c *Consumer) ProgressOf(at Place) (Progress, bool) { return c.scheduler.ProgressOf(at) }

// SetWeights gives tenants of fair lanes other weights, which act on the jobs that wait already. All others have
// the weight 1.
func (c *Consumer) SetWeights(weights map[string]float64) { c.scheduler.SetWeights(weights) }

// ReadyJobs is how many jobs Take could hand out now. A job that is not taken is dropped when
// its partition is taken away.
func (c *Consumer) ReadyJobs() int { return c.scheduler.ReadyJobs() }

// ReadyLanes are the lanes that have jobs which Take could hand out now: bit n stands for lane
// n, counted from 0.
func (c *Consumer) ReadyLanes() uint16 { return c.scheduler.ReadyLanes() }

// SleepersFull tells whether as many jobs sleep on this node as may. Then no new job is made
// ready or fetched; a job that fails may sleep all the same.
func (c *Consumer) SleepersFull() bool { return c.scheduler.SleepersFull() }

// Wake ends the sleep of the jobs with WakeEarly in their [SleepOptions]. It does not block.
func (c *Consumer) Wake() { c.scheduler.Wake() }

// Run consumes until ctx ends, and returns nil after the drain, the last commit and leaving
// the groups. While no broker can be reached it keeps trying. It returns an error, after
// the same steps, when a topic is missing, when credentials or a certificate are refused
// before it has joined, or when the cluster forbids what the configuration asks for.
func (c *Consumer) Run(ctx context.Context) error {
	defer c.scheduler.Finish()
	defer c.client.Close()
	defer c.settler.Close()
	if err := c.prepare(ctx); err != nil || ctx.Err() != nil {
		if err != nil {
			c.health.Failed(err)
		}
		return err
	}
	var helpers sync.WaitGroup
	end := make(chan struct{})
	helpers.Go(func() { c.scheduler.KeepTime(end) })
	helpers.Go(func() { c.settler.KeepLogging(end) })
	var err error
	for err == nil && ctx.Err() == nil {
		if left := c.membership.await(ctx, false); left == nil {
			err = c.runGroups(ctx)
		}
	}
	close(end)
	helpers.Wait()
	return err
}

// runGroups is a member of all groups until ctx ends, the node is to leave them or a group
// fails. It returns the error of the latter.
func (c *Consumer) runGroups(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	refusals := make(chan error, 1) // the first is enough
	var groups, watch sync.WaitGroup
	for _, src := range c.sources {
		fail := func(err error) error {
			err = fmt.Errorf("topic %s: %w", src.Topic, err)
			stop(err)
			return err
		}
		g := c.group(src, func(err error) {
			select {
			case refusals <- fail(err):
			default:
			}
		})
		groups.Go(func() {
			if err := g.Run(ctx); err != nil {
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
	case err = <-refusals: // it counts, whatever else ended the membership
		c.health.Failed(err)
	default:
	}
	return err
}

func (c *Consumer) group(src *schedule.Source, refuse func(error)) *group.Group {
	o := &c.opts
	return group.New(group.Options{
		ID: o.Group + "." + src.Topic, Source: src, Connection: &o.Connection, Client: c.client,
		Scheduler: c.scheduler, Settler: c.settler, Health: &c.health, Metrics: c.metrics, Log: o.Logger,
		Heartbeat: o.Heartbeat, Session: o.Session, Drain: o.Drain, SlotTime: o.SlotTime, JoinBackoff: o.JoinBackoff, CommitInterval: o.CommitInterval,
		StartLast: o.StartAt == StartLast, OutOfRange: o.OutOfRange, Refuse: refuse,
		Limits: job.Limits{MaxBytes: o.MaxJobBytes, IgnoreCost: o.IgnoreCost},
	})
}

// outcome is the error that ended the membership; nil: the caller ended it.
func (c *Consumer) outcome(ctx context.Context) error {
	err := context.Cause(ctx)
	if _, ok := errors.AsType[*leftError](err); ok {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ctx.Err()) {
		return nil
	}
	c.health.Failed(err)
	return err
}
