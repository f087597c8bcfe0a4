package health

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"dispatcher/consumer"
	"dispatcher/throttle/phase"
)

const (
	minInterval, maxInterval = 50 * time.Millisecond, time.Second // between two checks
	askTimeout               = 5 * time.Second                    // for the progress of others
	maxDoublings             = 3                                  // of the rest
)

// ErrProvider says that the provider does not answer this node.
var ErrProvider = errors.New("the provider does not answer this node")

// Cause is why a node is unhealthy; nil: it is healthy.
func Cause(limit phase.State, breakerClosed bool) error {
	if err := limit.Ready(); err != nil && limit.Phase != phase.Reserve {
		return err
	}
	if !breakerClosed {
		return ErrProvider
	}
	return nil
}

// Member is the node's membership in its groups: a [consumer.Consumer].
type Member interface {
	Status() consumer.Status
	PeerProgress(ctx context.Context) (consumer.PeerProgress, error)
	LeaveGroups(why error)
	RejoinGroups()
}

// Check watches one node. All fields but the unexported ones are required.
type Check struct {
	Member       Member
	Cause        func() error  // why the node is unhealthy now; nil: it is healthy
	StalledAfter time.Duration // 0: the node never leaves
	LastCalls    time.Duration // calls in flight when the trouble begins are settled so much later at most
	Log          *slog.Logger

	rests  int  // that ended without the node being healthy, since it last was
	futile bool // nobody else completed a job in the last of them
}

// Run checks the node until ctx ends.
func (c *Check) Run(ctx context.Context) {
	if c.StalledAfter == 0 {
		return
	}
	ticker := time.NewTicker(min(max(c.StalledAfter/20, minInterval), maxInterval))
	defer ticker.Stop()
	for {
		cause := c.awaitStalled(ctx, ticker.C)
		if cause == nil {
			return
		}
		c.Log.Warn("stalled node left its groups, others can do its jobs", "cause", cause, "stalled_after", c.StalledAfter)
		c.Member.LeaveGroups(cause)
		if !c.rest(ctx, ticker.C) {
			return
		}
		c.Log.Info("stalled node rejoined its groups")
		c.Member.RejoinGroups()
	}
}

// awaitStalled waits until the node is stalled and others can do its work, and
// returns the cause; nil: ctx ended.
func (c *Check) awaitStalled(ctx context.Context, ticks <-chan time.Time) error {
	var since time.Time // when the node became unhealthy; zero: it is healthy, or has no jobs
	peers := peers{Check: c}
	for await(ctx, ticks) {
		cause := c.Cause()
		if cause == nil {
			c.rests, c.futile = 0, false
		}
		switch {
		case cause == nil || !hasJobs(c.Member.Status()):
			since, peers.at = time.Time{}, time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= max(c.StalledAfter-c.span(), c.LastCalls):
			if worked, idle := peers.compare(ctx); worked || idle && !c.futile {
				return cause
			}
		}
	}
	return nil
}

// span is the time over which the progress of others is compared.
func (c *Check) span() time.Duration { return c.StalledAfter / 4 }

func hasJobs(s consumer.Status) bool { return s.InFlight > 0 || s.Lag > 0 }

// rest waits until the node may rejoin; false: ctx ended.
func (c *Check) rest(ctx context.Context, ticks <-chan time.Time) bool {
	began, most := time.Now(), c.StalledAfter<<min(c.rests, maxDoublings)
	peers := peers{Check: c}
	c.futile = true
	for await(ctx, ticks) {
		cause := c.Cause()
		if cause == nil {
			return true
		}
		if worked, idle := peers.compare(ctx); worked || idle {
			c.futile = false
		}
		if errors.Is(cause, ErrProvider) && time.Since(began) >= most {
			c.rests++
			return true
		}
	}
	return false
}

// peers is the progress of the other nodes when it was last compared.
type peers struct {
	*Check

	at   time.Time // zero: it is not known
	last consumer.PeerProgress
}

// compare reports, at the end of each span, whether the others completed jobs in it,
// and whether they had none to do. Both are false within a span, and while Kafka
// does not answer.
func (p *peers) compare(ctx context.Context) (worked, idle bool) {
	if !p.at.IsZero() && time.Since(p.at) < p.span() {
		return false, false
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	now, err := p.Member.PeerProgress(ctx)
	if err != nil {
		p.Log.Debug("the progress of other nodes could not be read", "error", err)
		p.at = time.Time{}
		return false, false
	}
	if !p.at.IsZero() {
		worked, idle = now.Moved(p.last), now.Idle() && p.last.Idle()
	}
	p.at, p.last = time.Now(), now
	return worked, idle
}

func await(ctx context.Context, ticks <-chan time.Time) bool {
	select {
	case <-ctx.Done():
		return false
	case <-ticks:
		return true
	}
}
