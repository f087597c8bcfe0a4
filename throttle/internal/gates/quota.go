package gates

import (
	"time"

	"dispatcher/internal/timetext"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// quotaMemory is what the reserving goroutine remembers of a quota, so that Redis learns it
// again after a loss.
type quotaMemory struct {
	whole  bool      // all jobs count together
	state  string    // the newest that Redis has shown
	warned time.Time // when the log said that little is left
	lost   int64     // the loss that was logged last, on Redis's clock, in µs
}

// little is the part of a quota of which the log warns once it is used.
const little = 0.8

// asked is what a call says of the gate as a quota.
func (g *gate) asked(now time.Time) (q script.Quota) {
	if !g.IsQuota() {
		return q
	}
	for _, bound := range g.Bounds(now) {
		q.Bounds = append(q.Bounds, bound.UnixMicro())
	}
	q.Whole, q.State = g.quota.whole, g.quota.state
	return q
}

// noteWait warns once a loss that a quota with a key waits, since Redis lost its counts.
func (k *Known) noteWait(g *gate, opening string) {
	o, err := script.ReadOpening(opening)
	if err != nil || o.Lost == g.quota.lost {
		return
	}
	g.quota.lost = o.Lost
	k.log.Warn("quota waits: redis lost its counts, or may have, and on_lost is wait", "gate", g.name, "lost_at", timetext.Stamp(limit.FromMicros(o.Lost)), "until", timetext.Stamp(limit.FromMicros(o.From)))
}

// noteQuota remembers the state that Redis shows, and warns once a window, and once a minute at
// most, when little is left.
func (k *Known) noteQuota(g *gate, state string, now int64) {
	if g.IsQuota() && !g.quota.whole {
		k.noteWait(g, state)
		return
	}
	if !g.IsQuota() || state == "" { // nothing was counted, or a cooldown began and nothing was read
		return
	}
	at := limit.FromMicros(now)
	g.quota.state = g.Remember(g.quota.state, state, at.Add(limit.MaxHorizon))
	used := g.Used(state, at)
	k.metrics.Quota(g.name, used, g.Cap)
	warned := g.quota.warned
	if float64(used) < little*float64(g.Cap) || !warned.Before(g.Begins(at)) || at.Sub(warned) < time.Minute {
		return
	}
	g.quota.warned = at
	k.log.Warn("quota is nearly used up; its jobs wait once it is, until the window is over", "gate", g.name, "used", used, "cap", g.Cap, "window", g.WindowText())
}
