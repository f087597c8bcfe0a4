package gates

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/internal/expression"
	"dispatcher/throttle"
)

// Gates knows on which limits a job counts after the first, and which of them refuse
// jobs for now. It belongs to one goroutine. Nil, in tests alone: there is one limit.
type Gates struct {
	// MaxValues is how many values it remembers. Above that jobs are asked for that a gate refuses.
	MaxValues int

	all     []gate
	cost    *expression.Cost // nil: the header says it
	limiter *throttle.Limiter
	refused *prometheus.CounterVec // by the limit's name
	values  map[throttle.Value]*value
	swept   time.Time        // when those that say nothing any more were removed
	moved   []throttle.Value // that jobs have left the lines of, each once
	tickets uint64           // that were made
}

// New compiles the expressions of a configuration. refused counts, by the name of a limit, the jobs
// that begin to wait for it. An error names the setting whose expression does not compile.
func New(cfg configs.Config, limiter *throttle.Limiter, refused *prometheus.CounterVec) (*Gates, error) {
	g := &Gates{limiter: limiter, refused: refused, MaxValues: maxValues, values: make(map[throttle.Value]*value)}
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

// Values is how many values it remembers.
func (g *Gates) Values() int { return len(g.values) }

// gate is one of them. Without a key all jobs have the same value.
type gate struct {
	name string
	key  *expression.Key
	when *expression.Condition // nil: it is for all jobs
	cost *expression.Cost      // nil: a job counts as on the first limit
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

// Request is what a job wants of the limiter. An error says which expression fails on the job. Jobs
// are taken and put back many times, and their expressions say the same each time.
func (g *Gates) Request(d *consumer.Delivery) (throttle.Request, error) {
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

// ValueOf is the hash of the value of a limit that a job waits for. Unlike the other methods, any goroutine may call it while the
// pacer does not have the job.
func (g *Gates) ValueOf(d *consumer.Delivery, limit string) (hash [16]byte, ok bool) {
	t := ticketOf(d)
	if g == nil || t == nil {
		return hash, false
	}
	for _, p := range t.wants.Passes {
		if one := &g.all[p.Gate]; one.name == limit && one.key != nil {
			return p.Hash, true
		}
	}
	return hash, false
}

// evaluate runs the expressions over a job.
func (g *Gates) evaluate(d *consumer.Delivery) (throttle.Request, error) {
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
