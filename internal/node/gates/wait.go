package gates

import (
	"maps"
	"slices"
	"time"
	"weak"

	"dispatcher/consumer"
	"dispatcher/throttle"
)

const (
	maxValues = 100_000
	// Recheck is how long a job waits at most before its wait is reckoned again. Meanwhile the
	// limit may have been raised, or jobs before it may have gone to another node.
	Recheck = 5 * time.Second
)

// Shut tells whether a job is to wait for a gate that is known to refuse it, or to which jobs
// before it go first.
func (g *Gates) Shut(d *consumer.Delivery, r throttle.Request, now time.Time) (wait consumer.DeferOptions, shut bool) {
	if len(r.Passes) == 0 {
		return wait, false
	}
	var last throttle.Passed
	var at time.Time
	for _, p := range r.Passes {
		if turn := g.turn(d, r, p, now); turn.After(at) {
			at, last = turn, p
		}
	}
	if !at.After(now.Add(g.ahead())) {
		return wait, false
	}
	return g.wait(d, r, last, at, now), true
}

// turn is when a job may pass a gate, behind those of its value that wait on this node; zero:
// nothing is known against it.
func (g *Gates) turn(d *consumer.Delivery, r throttle.Request, p throttle.Passed, now time.Time) time.Time {
	v := g.values[p.Value]
	if v == nil {
		return time.Time{}
	}
	v.trim(now)
	if v.free.IsZero() || !g.knows(v, p.Value, now) { // the gate is asked
		return time.Time{}
	}
	return v.free.Add(time.Duration(v.before(ticketOf(d).age)) * g.gap(r, p, now))
}

// wait has a job wait until a gate lets it pass, and gives it a place in the line of the value that it
// waits for.
func (g *Gates) wait(d *consumer.Delivery, r throttle.Request, p throttle.Passed, passes, now time.Time) consumer.DeferOptions {
	until := passes
	if early := passes.Add(-g.ahead()); early.After(now) {
		until = early
	}
	if latest := now.Add(Recheck); until.After(latest) {
		until = latest
	}
	if v := g.values[p.Value]; v != nil && v.said.After(passes) {
		passes = v.said
	}
	if own := placeOf(d); own == nil || own.of != p.Value {
		g.leave(own)
		g.refused.WithLabelValues(g.all[p.Gate].name).Inc()
		if v := g.values[p.Value]; v != nil {
			own = &place{of: p.Value, age: ticketOf(d).age, units: r.Counts(p), job: weak.Make(d)}
			v.join(own)
			ticketOf(d).place = own
		}
	}
	return consumer.DeferOptions{Until: until, Passes: passes, Limit: g.all[p.Gate].name}
}

// Passed notes that a job passes its gates at a time.
func (g *Gates) Passed(d *consumer.Delivery, r throttle.Request, at, now time.Time) {
	if len(r.Passes) == 0 {
		return
	}
	g.leave(placeOf(d))
	for _, p := range r.Passes {
		g.note(p.Value, at.Add(g.gap(r, p, now)), now)
	}
}

// RefusedBy notes that a gate refuses a job, which waits from now on. One that was asked for a
// little too early is asked for again when the gate lets it pass.
func (g *Gates) RefusedBy(d *consumer.Delivery, r throttle.Request, a throttle.Answer, now time.Time) consumer.DeferOptions {
	p := r.Passes[slices.IndexFunc(r.Passes, func(p throttle.Passed) bool { return p.Gate == a.Gate })]
	g.note(p.Value, a.Until, now)
	at := a.Until
	if turn := g.turn(d, r, p, now); turn.After(at) {
		at = turn
	}
	return g.wait(d, r, p, at, now)
}

// gap is how long after a job the next one of a value may pass.
func (g *Gates) gap(r throttle.Request, p throttle.Passed, now time.Time) time.Duration {
	return time.Duration(r.Counts(p)) * g.limiter.GateSpacing(p.Value, now)
}

// ahead is how far ahead of its slot a job may be asked for.
func (g *Gates) ahead() time.Duration { return g.limiter.State().Settings.Horizon }

// note keeps when a value is free, if that is later than what is known under the same terms. A
// quota is believed for a short time only: units may be given back, or its cap be raised.
func (g *Gates) note(p throttle.Value, free, now time.Time) {
	said := free
	if latest := now.Add(Recheck); g.limiter.GateSpacing(p, now) == 0 && free.After(latest) {
		free = latest
	}
	v := g.values[p]
	if v == nil {
		if len(g.values) >= g.MaxValues && now.Sub(g.swept) > time.Second {
			g.swept = now
			maps.DeleteFunc(g.values, func(_ throttle.Value, v *value) bool {
				v.trim(now)
				return !v.free.After(now) && len(v.line) == 0
			})
		}
		if len(g.values) >= g.MaxValues {
			return
		}
		v = &value{}
		g.values[p] = v
	}
	if !g.knows(v, p, now) || free.After(v.free) {
		v.free, v.said, v.spacing, v.terms = free, said, g.limiter.GateSpacing(p, now), g.limiter.GateRevision(p.Gate)
	}
}

// knows tells whether the terms of a gate are those under which a value was learned.
func (g *Gates) knows(v *value, of throttle.Value, now time.Time) bool {
	return v.spacing == g.limiter.GateSpacing(of, now) && v.terms == g.limiter.GateRevision(of.Gate)
}
