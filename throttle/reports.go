package throttle

import (
	"context"
	"time"

	"dispatcher/throttle/feedback"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/internal/slots"
	"dispatcher/throttle/lateness"
	"dispatcher/throttle/limit"
)

// reports are what a node tells the fleet once in a while, besides its reservations.
type reports struct {
	lateness lateness.Reporter
	feedback feedback.Reporter
	working  bool // Redis answers, and the fleet keeps the limit together
}

// init has the reports use a limiter's scripts.
func (p *reports) init(l *Limiter, scripts script.Scripts) {
	p.lateness = lateness.Reporter{
		Counter: &l.counter, Trips: &l.trips, Limit: l.opts.Name, Log: l.log, Configure: scripts.Configure,
		Send: func(ctx context.Context, r lateness.Report) (lateness.Reply, error) { return r.Send(ctx, scripts) },
	}
	p.feedback = feedback.Reporter{
		Counter: &l.answers, Log: l.log,
		Send: func(ctx context.Context, c feedback.Counts) (feedback.Reply, error) { return c.Send(ctx, scripts) },
		Write: func(ctx context.Context, number int64, d feedback.Decision) (limit.Slowdown, error) {
			return d.Write(ctx, scripts, number, limit.Dispatcher)
		},
	}
}

// reportDue makes the reports that are due.
func (r *reserver) reportDue(ctx context.Context, now time.Time) {
	r.reports.working = r.opts.Limit.Scope != limit.ScopeNode && r.learned && r.failures == 0
	if !r.reports.working || !r.known.ChoosesLateness() {
		r.reports.lateness.Skip(now)
	} else if r.reports.lateness.Report(ctx, r.known, now) || r.raiseLateness(ctx, now) {
		r.pollNow = true
	}
	if !r.reports.working {
		return
	}
	now = time.Now()
	if slow, ok := r.reports.feedback.Report(ctx, r.known.Contract, r.kind.Share(r.known.Contract), now); ok {
		r.slowDown(slow, now)
	}
}

// raiseAfter readings in a row that left the mapping too wide, about four seconds of them, show that
// this node waits for a reading that does not come.
const raiseAfter = 25

// raiseLateness has the fleet take a lateness with which this node can work, where jobs have waited in
// vain on all nodes. It returns whether this node has changed the settings.
func (r *reserver) raiseLateness(ctx context.Context, now time.Time) (changed bool) {
	if r.wide < raiseAfter || r.turn.IsZero() && len(r.again) == 0 {
		return false
	}
	return r.reports.lateness.Raise(ctx, r.known, slots.LeastLate(r.clock.Width(now)), now)
}

// slowDown goes on under a slowdown. Slots that are out when a block begins are given up.
func (r *reserver) slowDown(slow limit.Slowdown, now time.Time) {
	if slow == r.reports.feedback.Slowdown() {
		return
	}
	ahead := limit.FromMicros(slow.Since).Sub(r.redisTime(now))
	before := r.reports.feedback.Follow(slow, now.Add(max(0, ahead)))
	switch {
	case slow.Until > before.Until && slow.BlockedAt(r.redisTime(now)):
		r.giveUp()
	case slow.Until < before.Until: // the block is over before its time: an operator released it
		r.allLanes(func(l *lane) { l.refusedUntil = time.Time{} })
	default:
		r.waitLess(before.Share(r.known.Contract)/slow.Share(r.known.Contract), now)
	}
	r.noteSlowdown(slow)
}

// waitLess shortens the waits of refused lanes: Redis reckoned them at a lower pace. A lane whose wait is over too early gets a longer one.
func (r *reserver) waitLess(times float64, now time.Time) {
	if times >= 1 {
		return
	}
	r.allLanes(func(l *lane) {
		if left := l.refusedUntil.Sub(now); left > 0 {
			l.refusedUntil = now.Add(time.Duration(float64(left) * times))
		}
	})
}
