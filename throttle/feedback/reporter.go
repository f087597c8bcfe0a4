package feedback

import (
	"context"
	"log/slog"
	"time"

	"dispatcher/internal/redisclient"
	"dispatcher/throttle/limit"
)

// reportEvery is how often a node reports while there is a slowdown. feedback.lua waits
// for longer before it has the next one decided, so each node has reported by then.
const reportEvery = 400 * time.Millisecond

// Reporter reports the calls of a node, and decides on the slowdown when it is this node's
// turn. All fields of a new one but the unexported ones are to be set. Any goroutine may
// use Counter; the methods are for one.
type Reporter struct {
	Counter *Counter
	Log     *slog.Logger

	Send  func(context.Context, Counts) (Reply, error)
	Write func(ctx context.Context, number int64, d Decision) (limit.Slowdown, error) // see [Decision.Write]

	slow   limit.Slowdown // in force, as far as this node knows
	saidAt time.Time      // last report
	failed bool           // and that was logged
}

// Slowdown is the one in force, as far as this node knows.
func (r *Reporter) Slowdown() limit.Slowdown { return r.slow }

// Follow goes on under a slowdown, which begins at from on this node's clock. It returns the one before.
func (r *Reporter) Follow(slow limit.Slowdown, from time.Time) (before limit.Slowdown) {
	before, r.slow = r.slow, slow
	r.Counter.Follow(slow, from)
	return before
}

// Due is when the next report is due, of a node that reserved its last slot at this time; the zero time: none is.
func (r *Reporter) Due(reserved, now time.Time) time.Time {
	if !r.Counter.news.Load() && (r.slow.IsZero() || now.Sub(reserved) > time.Second) {
		return time.Time{}
	}
	due := r.saidAt.Add(reportEvery)
	if due.Before(now) { // calls of slots that are out come soon
		due = now.Add(reportEvery / 4)
	}
	return due
}

// Report reports which calls the provider refused, where there is a slowdown or is to be
// one. share is the part of the cap that the limit's algorithm uses while jobs wait. It
// returns the slowdown in force; ok: it is Redis's answer.
func (r *Reporter) Report(ctx context.Context, c limit.Contract, share float64, now time.Time) (slow limit.Slowdown, ok bool) {
	if now.Sub(r.saidAt) < reportEvery {
		return r.slow, false
	}
	counts := r.Counter.Counts()
	if counts.Made == 0 && counts.Refused == 0 || counts.Number == 0 && c.IgnoreThrottled {
		return r.slow, false
	}
	r.saidAt = now
	ctx, cancel := context.WithTimeout(ctx, redisclient.Timeout)
	defer cancel()
	slow, err := r.report(ctx, counts, c, share)
	if err != nil && !r.failed {
		r.Log.Info("refused calls could not be reported; the slowdown stays as it is", "error", err)
	}
	r.failed = err != nil
	return slow, err == nil
}

func (r *Reporter) report(ctx context.Context, counts Counts, c limit.Contract, share float64) (limit.Slowdown, error) {
	reply, err := r.Send(ctx, counts)
	if err != nil || !reply.Decides {
		return reply.Slowdown, err
	}
	d := Decision{Next: Begin(c, reply.Now), Changed: true}
	if now := reply.Slowdown; !now.IsZero() {
		d = Next(now, c, share, reply.Nodes, reply.Now)
	}
	if !d.Changed {
		return reply.Slowdown, nil
	}
	if d.Event != "" {
		r.Log.Info("what the provider answers changed the pace of the fleet", "event", d.Event)
	}
	return r.Write(ctx, reply.Slowdown.Number, d)
}
