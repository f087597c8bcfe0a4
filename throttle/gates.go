package throttle

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"dispatcher/internal/fault"
	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/internal/slots"
	"dispatcher/throttle/limit"
)

// Gate is one more limit that a job counts on, after the first: at most the cap in any
// window for each value of a key, spaced evenly, or as a quota as fast as they come. It grants nothing by itself. A job gets a slot of the
// first limit at a time at which all its gates let it pass, and counts on all of them then.
// A job that a gate refuses counts on none.
type Gate struct {
	Name  string
	Limit limit.Spec // seeds Redis; see [limit.Terms.Beside]
	Keyed bool       // jobs with different values are counted apart; else all have the value of [HashOf] of ""
}

func checkGates(o Options) error {
	var faults fault.List
	faults.Refuse(len(o.Gates) > limit.MaxGates, "gates", len(o.Gates), "must be at most %d", limit.MaxGates)
	faults.Refuse(len(o.Gates) > 0 && o.Limit.Scope == limit.ScopeNode, "scope", string(o.Limit.Scope), "must be cluster where jobs count on several limits")
	faults.Refuse(len(o.Gates) > 0 && o.Limit.Degraded == limit.DegradedReserve, "degraded", string(o.Limit.Degraded), "must be wait where jobs count on several limits: a node can't keep them without Redis")
	err := faults.Err()
	if o.Limit.Gate {
		err = errors.Join(err, fmt.Errorf("limit: %q: is a gate: the first limit must not be one; move it to the gates", o.Name))
	}
	names := map[string]bool{o.Name: true}
	for _, g := range marked(o.Gates) {
		if invalid := errors.Join(limit.CheckName("name", g.Name), g.Limit.Validate()); invalid != nil {
			err = errors.Join(err, fmt.Errorf("gate %q: %w", g.Name, invalid))
		}
		if names[g.Name] {
			err = errors.Join(err, fmt.Errorf("name: %q: two limits have it", g.Name))
		}
		names[g.Name] = true
	}
	return err
}

// marked are gates with limits that say that they are gates.
func marked(stated []Gate) []Gate {
	gates := slices.Clone(stated)
	for i := range gates {
		gates[i].Limit.Gate = true
	}
	return gates
}

// gate is what the reserving goroutine knows of one.
type gate struct {
	limit.Settings // the newest that it has seen

	name  string
	quota quotaMemory
}

func newGates(stated []Gate) []gate {
	gates := make([]gate, len(stated))
	for i, g := range stated {
		gates[i] = gate{Settings: g.Limit.Settings(), name: g.Name, quota: quotaMemory{whole: !g.Keyed}}
		if packed, err := limit.Unpack(gates[i].Pack()); err == nil { // so that a call need not pack them
			gates[i].Settings = packed
		}
	}
	return gates
}

// noteTerms keeps the terms of a gate for callers. They follow from the guard of the first
// limit.
func (l *Limiter) noteTerms(gate int, set, first limit.Terms) {
	set = set.Beside(first)
	l.gateTerms[gate].Store(&set)
}

// gatesOf is what a call says of gates, for these jobs and corrections.
func (r *reserver) gatesOf(asked []request, corrections []slots.Correction) (g script.Gates) {
	now := r.redisTime(time.Now())
	for _, one := range r.gates {
		g.Names, g.Known = append(g.Names, one.name), append(g.Known, one.Settings)
		g.Quotas = append(g.Quotas, one.asked(now))
	}
	if len(asked)+len(corrections) == 0 || len(r.gates) == 0 {
		return g
	}
	index := make(map[Value]int)
	state := func(p Value) int {
		i, known := index[p]
		if !known {
			i = len(g.States)
			index[p] = i
			g.States = append(g.States, script.State{Gate: p.Gate, Hash: p.Hash})
		}
		return i
	}
	for _, q := range asked {
		passes := make([]script.Pass, len(q.Passes))
		for i, p := range q.Passes {
			passes[i] = script.Pass{State: state(p.Value), Units: q.Counts(p)}
		}
		g.Jobs = append(g.Jobs, passes)
	}
	for _, c := range corrections {
		if c.Blocks() {
			g.Corrections = append(g.Corrections, script.StateCorrection{State: state(c.Blocked), Block: true, Correction: script.Correction{Slot: c.Until}})
			continue
		}
		for _, p := range c.Job.Passes {
			if units := c.On(p); units != 0 {
				g.Corrections = append(g.Corrections, script.StateCorrection{State: state(p.Value), Correction: script.Correction{Slot: c.At, Units: units}})
			}
		}
	}
	return g
}

// refuse tells jobs until when a gate refuses them.
func (r *reserver) refuse(asked []request, reply script.Reservation, now time.Time) {
	if reply.Choice == nil {
		return
	}
	for _, one := range reply.Choice.Refused {
		asked[one.Job].answer.Until, asked[one.Job].answer.Gate = now.Add(clock.Duration(one.At-reply.Now)), one.Gate
	}
}

// GateSpacing is the time between two units of one value of a gate's key, under the settings
// in force.
func (l *Limiter) GateSpacing(of Value, now time.Time) time.Duration {
	return l.gateTerms[of.Gate].Load().For(of.Hash, now).GateSpacing()
}

// GateRevision is that of the settings in force of a gate. What was learned under another one
// may not hold any more.
func (l *Limiter) GateRevision(gate int) int64 { return l.gateChanges[gate].Load() }

// takeGates learns the settings of the gates in force, as [reserver.take] does for the first
// limit.
func (r *reserver) takeGates(reply script.Reservation) {
	if reply.Choice == nil {
		return
	}
	for i, set := range reply.Choice.Gates {
		g := &r.gates[i]
		if set == g.Settings || g.Newer(set) {
			continue
		}
		if set.Stricter(g.Settings) {
			r.giveUp()
		}
		r.log.Info("limit settings in force", "gate", g.name, "revision", set.Revision, "by", set.By, "paused", set.Paused, "contract", set.String())
		g.Settings, r.pollNow = set, true
	}
	for i, state := range reply.Choice.Quotas {
		r.noteQuota(&r.gates[i], state, reply.Now)
	}
	for i, g := range r.gates {
		r.noteTerms(i, g.Terms, r.known.Terms)
		r.gateChanges[i].Store(g.Revision)
	}
}
