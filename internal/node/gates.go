package node

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/internal/expression"
	"dispatcher/throttle"
)

// gates knows on which limits a job counts beside the first one, and which of them refuse
// jobs for now. It belongs to the pacer's goroutine. Nil, in tests alone: there is one limit.
type gates struct {
	all     []gate
	cost    *expression.Cost // nil: the header says it
	limiter *throttle.Limiter
	refused *prometheus.CounterVec // by the limit's name
	values  map[throttle.Value]*value
	most    int              // values that it remembers; above that jobs are asked for that a gate refuses
	swept   time.Time        // when those that say nothing any more were removed
	moved   []throttle.Value // that jobs have left the lines of, each once
	tickets uint64           // that were made
}

// gate is one of them. Without a key all jobs have the same value.
type gate struct {
	name string
	key  *expression.Key
	when *expression.Condition // nil: it is for all jobs
	cost *expression.Cost      // nil: a job counts as on the first limit
}

// value is what the node knows of a value of a gate's key.
type value struct {
	free    time.Time     // when its next job may pass
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
	return p.left || d == nil || d.Context().Err() != nil || expired(d.Job.NotAfter, now)
}

const (
	maxValues = 100_000
	// recheck is how long a job waits at most before its wait is reckoned again. Meanwhile the
	// limit may have been raised, or jobs before it may have gone to another node.
	recheck = 5 * time.Second
)

// ticket is what the pacer keeps of a job for as long as the job is on this node.
type ticket struct {
	age     uint64 // the jobs are numbered in the order in which they came
	wants   throttle.Request
	invalid error  // an expression fails on the job
	place   *place // nil: it has waited for no limit
}

// ticketOf is the job's ticket; nil: it has none yet.
func ticketOf(d *consumer.Delivery) *ticket {
	t, _ := d.Note().(*ticket)
	return t
}

// request is what a job wants of the limiter. Jobs are taken and put back many times, and their
// expressions say the same each time.
func (g *gates) request(d *consumer.Delivery) (throttle.Request, error) {
	if g == nil || len(g.all) == 0 && g.cost == nil {
		return throttle.Request{Cost: int64(max(1, d.Job.Cost))}, nil
	}
	t := ticketOf(d)
	if t == nil {
		g.tickets++
		t = &ticket{age: g.tickets}
		t.wants, t.invalid = g.evaluate(d)
		d.SetNote(t)
	}
	return t.wants, t.invalid
}

// evaluate runs the expressions over a job.
func (g *gates) evaluate(d *consumer.Delivery) (throttle.Request, error) {
	r := throttle.Request{Cost: int64(max(1, d.Job.Cost))}
	j := expression.JobOf(&d.Job, d.Lane(), d.JobTopic())
	if g.cost != nil {
		var err error
		if r.Cost, err = g.cost.Of(j); err != nil {
			return r, fmt.Errorf("cost: %w", err)
		}
	}
	for i, one := range g.all {
		value, applies, err := one.valueOf(j)
		if err != nil {
			return r, fmt.Errorf("limit %s: %w", one.name, err)
		}
		if applies {
			p := throttle.Passed{Value: throttle.Value{Gate: i, Hash: throttle.HashOf(value)}}
			if one.cost != nil {
				if p.Units, err = one.cost.Of(j); err != nil {
					return r, fmt.Errorf("limit %s: cost: %w", one.name, err)
				}
			}
			r.Passes = append(r.Passes, p)
		}
	}
	return r, nil
}

// valueOf is the value of the gate's key for a job that counts on it.
func (g *gate) valueOf(j *expression.Job) (value string, applies bool, err error) {
	if g.when != nil {
		if applies, err = g.when.Holds(j); err != nil || !applies {
			return "", false, err
		}
	}
	if g.key != nil {
		value, err = g.key.Of(j)
	}
	return value, true, err
}

// shut tells whether a job is to wait for a gate that is known to refuse it, or to which jobs
// before it go first.
func (g *gates) shut(d *consumer.Delivery, r throttle.Request, now time.Time) (wait consumer.DeferOptions, shut bool) {
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
	return g.wait(d, r, last, at.Add(-g.ahead()), now), true
}

// turn is when a job may pass a gate, behind those of its value that wait on this node; zero:
// nothing is known against it.
func (g *gates) turn(d *consumer.Delivery, r throttle.Request, p throttle.Passed, now time.Time) time.Time {
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

// leave has a job leave its line. Places that were left are taken out when they are an eighth of
// the line: so long the jobs behind them reckon with a little too much.
func (g *gates) leave(p *place) {
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

// drop has a job leave its line for good.
func (g *gates) drop(d *consumer.Delivery) {
	if g != nil {
		g.leave(placeOf(d))
	}
}

// due are the jobs whose turn has come since others have left the lines ahead of them: their
// time was reckoned with those before them. A line goes on so once a spacing of its gate at most.
// More often, all jobs of a value might move to the lines of other limits, one by one, and none would be
// left when it is free.
func (g *gates) due(now time.Time) (jobs []*consumer.Delivery) {
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

// wait has a job wait until a time, and gives it a place in the line of the value that it
// waits for.
func (g *gates) wait(d *consumer.Delivery, r throttle.Request, p throttle.Passed, until, now time.Time) consumer.DeferOptions {
	if latest := now.Add(recheck); until.After(latest) {
		until = latest
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
	return consumer.DeferOptions{Until: until, Limit: g.all[p.Gate].name}
}

// passed notes that a job passes its gates at a time.
func (g *gates) passed(d *consumer.Delivery, r throttle.Request, at, now time.Time) {
	if len(r.Passes) == 0 {
		return
	}
	g.leave(placeOf(d))
	for _, p := range r.Passes {
		g.note(p.Value, at.Add(g.gap(r, p, now)), now)
	}
}

// refusedBy notes that a gate refuses a job, which waits from now on. One that was asked for a
// little too early is asked for again when the gate lets it pass.
func (g *gates) refusedBy(d *consumer.Delivery, r throttle.Request, a throttle.Answer, now time.Time) consumer.DeferOptions {
	p := r.Passes[slices.IndexFunc(r.Passes, func(p throttle.Passed) bool { return p.Gate == a.Gate })]
	g.note(p.Value, a.Until, now)
	at := a.Until
	if turn := g.turn(d, r, p, now); turn.After(at) {
		at = turn
	}
	if early := at.Add(-g.ahead()); early.After(now) {
		at = early
	}
	return g.wait(d, r, p, at, now)
}

// gap is how long after a job the next one of a value may pass.
func (g *gates) gap(r throttle.Request, p throttle.Passed, now time.Time) time.Duration {
	return time.Duration(r.Counts(p)) * g.limiter.GateSpacing(p.Value, now)
}

// ahead is how far ahead of its slot a job may be asked for.
func (g *gates) ahead() time.Duration { return g.limiter.State().Settings.Horizon }

// note keeps when a value is free, if that is later than what is known under the same terms. A
// quota is believed for a short time only: units may be given back, or its cap be raised.
func (g *gates) note(p throttle.Value, free, now time.Time) {
	if latest := now.Add(recheck); g.limiter.GateSpacing(p, now) == 0 && free.After(latest) {
		free = latest
	}
	v := g.values[p]
	if v == nil {
		if len(g.values) >= g.most && now.Sub(g.swept) > time.Second {
			g.swept = now
			maps.DeleteFunc(g.values, func(_ throttle.Value, v *value) bool {
				v.trim(now)
				return !v.free.After(now) && len(v.line) == 0
			})
		}
		if len(g.values) >= g.most {
			return
		}
		v = &value{}
		g.values[p] = v
	}
	if !g.knows(v, p, now) || free.After(v.free) {
		v.free, v.spacing, v.terms = free, g.limiter.GateSpacing(p, now), g.limiter.GateRevision(p.Gate)
	}
}

// knows tells whether the terms of a gate are those under which a value was learned.
func (g *gates) knows(v *value, of throttle.Value, now time.Time) bool {
	return v.spacing == g.limiter.GateSpacing(of, now) && v.terms == g.limiter.GateRevision(of.Gate)
}

// newGates compiles the expressions of a configuration.
func newGates(cfg configs.Config, limiter *throttle.Limiter, refused *prometheus.CounterVec) (*gates, error) {
	g := &gates{limiter: limiter, refused: refused, most: maxValues, values: make(map[throttle.Value]*value)}
	var err error
	if g.cost, err = compiled(cfg.Cost, "cost", expression.CompileCost); err != nil {
		return nil, err
	}
	for i, stated := range cfg.Gates() {
		one, path := gate{name: stated.Name}, fmt.Sprintf("limits.%d.", i+1)
		var faults [3]error
		one.key, faults[0] = compiled(stated.Key, path+"key", expression.CompileKey)
		one.when, faults[1] = compiled(stated.When, path+"when", expression.CompileCondition)
		one.cost, faults[2] = compiled(stated.Cost, path+"cost", expression.CompileCost)
		if err := errors.Join(faults[:]...); err != nil {
			return nil, err
		}
		g.all = append(g.all, one)
	}
	return g, nil
}

// compiled is an expression of a setting; nil where the setting is empty.
func compiled[E any](source, setting string, compile func(string) (E, error)) (*E, error) {
	if source == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	e, err := compile(source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	return &e, nil
}
