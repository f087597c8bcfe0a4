package gates

import (
	"cmp"
	"slices"
	"time"
	"weak"

	"dispatcher/consumer"
	"dispatcher/throttle"
)

// value is what the node knows of a value of a gate's key.
type value struct {
	free    time.Time     // when its next job may pass, as far as that is believed
	said    time.Time     // the same, as the limiter said
	spacing time.Duration // of the gate, when that was learned
	terms   int64         // revision of the gate's settings, likewise
	line    []*place      // of jobs that wait for it, the oldest first
	empty   int           // places in the line whose jobs have left it
	moved   bool          // it is among those of gates.moved
	resumed time.Time     // when the line went on last since jobs had left it
}

// place is that of a job in the line of a value. The job keeps it until it gets a slot, or waits
// for another limit: it would hold up those that can go before it. When it comes back, it stands
// before all jobs again that came after it.
type place struct {
	of    throttle.Value
	age   uint64 // of the job: see ticket
	left  bool
	units int64                           // that it counts there
	job   weak.Pointer[consumer.Delivery] // a line keeps no job in memory that has gone
}

// gone tells whether no job comes any more that has the place: it has expired, or its partition
// was taken away.
func (p *place) gone(now time.Time) bool {
	d := p.job.Value()
	return p.left || d == nil || d.Context().Err() != nil || d.Job.Expired(now)
}

// before is how many places of the line belong to older jobs.
func (v *value) before(age uint64) int {
	n, _ := slices.BinarySearchFunc(v.line, age, func(p *place, age uint64) int { return cmp.Compare(p.age, age) })
	return n
}

// trim takes out the first places whose jobs have gone.
func (v *value) trim(now time.Time) {
	for len(v.line) > 0 && v.line[0].gone(now) {
		if v.line[0].left {
			v.empty--
		}
		v.line[0] = nil
		v.line = v.line[1:]
	}
}

// join adds a place to the line. One that the same job has left there goes.
func (v *value) join(p *place) {
	n := v.before(p.age)
	if n < len(v.line) && v.line[n].age == p.age {
		v.line[n] = p
		v.empty--
		return
	}
	v.line = slices.Insert(v.line, n, p)
}

// holds tells whether a place is still in the line.
func (v *value) holds(p *place) bool {
	n := v.before(p.age)
	return n < len(v.line) && v.line[n] == p
}

// leave has a job leave its line. Places that were left are taken out when they are an eighth of
// the line: so long the jobs behind them reckon with a little too much.
func (g *Gates) leave(p *place) {
	if p == nil || p.left {
		return
	}
	p.left = true
	v := g.values[p.of]
	if v == nil || !v.holds(p) { // its job had gone, and came back
		return
	}
	if !v.moved {
		v.moved = true
		g.moved = append(g.moved, p.of)
	}
	if v.empty++; 8*v.empty < len(v.line) {
		return
	}
	v.line = slices.DeleteFunc(v.line, func(p *place) bool { return p.left })
	v.empty = 0
}

// Drop has a job leave its line for good.
func (g *Gates) Drop(d *consumer.Delivery) {
	if g != nil {
		g.leave(placeOf(d))
	}
}

// Due are the jobs whose turn has come since others have left the lines ahead of them: their
// time was reckoned with those before them. A line goes on so once a spacing of its gate at most.
// More often, all jobs of a value might move to the lines of other limits, one by one, and none would be
// left when it is free.
func (g *Gates) Due(now time.Time) (jobs []*consumer.Delivery) {
	if g == nil {
		return nil
	}
	g.moved = slices.DeleteFunc(g.moved, func(of throttle.Value) bool {
		v := g.values[of]
		if v == nil {
			return true
		}
		gap := g.limiter.GateSpacing(of, now)
		if now.Sub(v.resumed) < max(gap, leastPause) {
			return false
		}
		v.moved, v.resumed = false, now
		if gap > 0 && g.knows(v, of, now) { // without spacing all have the same time, which nobody's leaving changes
			jobs = append(jobs, v.front(gap, now, now.Add(g.ahead()))...)
		}
		return true
	})
	return jobs
}

// leastPause is between two times at which a line goes on, at least.
const leastPause = 5 * time.Millisecond

// front are the first jobs of a line whose turn comes by then.
func (v *value) front(gap time.Duration, now, by time.Time) (jobs []*consumer.Delivery) {
	v.trim(now)
	for before, p := range v.line {
		if p.gone(now) {
			continue
		}
		if v.free.Add(time.Duration(before) * time.Duration(p.units) * gap).After(by) {
			break
		}
		if d := p.job.Value(); d != nil {
			jobs = append(jobs, d)
		}
	}
	return jobs
}

// placeOf is the place of a job in a line; nil: it has none, or has left it.
func placeOf(d *consumer.Delivery) *place {
	if t := ticketOf(d); t != nil && t.place != nil && !t.place.left {
		return t.place
	}
	return nil
}
