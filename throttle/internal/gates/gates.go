package gates

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"dispatcher/internal/fault"
	"dispatcher/throttle/internal/metrics"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/internal/slots"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// Gate is one more limit that a job counts on, after the first: at most the cap in any
// window for each value of a key, spaced evenly, or as a quota as fast as they come. It grants nothing by itself. A job gets a slot of the
// first limit at a time at which all its gates let it pass, and counts on all of them then.
// A job that a gate refuses counts on none.
type Gate struct {
	Name  string
	Limit limit.Spec // seeds Redis; see [limit.Terms.Beside]
	Keyed bool       // jobs with different values are counted apart; else all have the value of the hash of ""
}

// Check checks gates behind a first limit of that name.
func Check(stated []Gate, name string, first limit.Spec) error {
	var faults fault.List
	faults.Refuse(len(stated) > limit.MaxGates, "gates", len(stated), "must be at most %d", limit.MaxGates)
	faults.Refuse(len(stated) > 0 && first.Scope == limit.ScopeNode, "scope", string(first.Scope), "must be cluster where jobs count on several limits")
	faults.Refuse(len(stated) > 0 && first.Degraded == limit.DegradedReserve, "degraded", string(first.Degraded), "must be wait where jobs count on several limits: a node can't keep them without Redis")
	err := faults.Err()
	if first.Gate {
		err = errors.Join(err, fmt.Errorf("limit: %q: is a gate: the first limit must not be one; move it to the gates", name))
	}
	names := map[string]bool{name: true}
	for _, g := range Marked(stated) {
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

// Marked are gates with limits that say that they are gates.
func Marked(stated []Gate) []Gate {
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
	known bool // Redis has named its settings
	quota quotaMemory
}

// Known is what a node knows of its gates. The zero value has none.
type Known struct {
	log     *slog.Logger
	metrics *metrics.Limit
	all     []gate // in the order in which they were stated

	terms    []atomic.Pointer[limit.Terms]    // beside the first limit
	settings []atomic.Pointer[limit.Settings] // those of all, for any goroutine
}

// New knows gates as they were stated, [Marked], beside the terms of the first limit.
func New(stated []Gate, first limit.Terms, log *slog.Logger, m *metrics.Limit) Known {
	k := Known{
		log: log, metrics: m, all: make([]gate, len(stated)),
		terms: make([]atomic.Pointer[limit.Terms], len(stated)), settings: make([]atomic.Pointer[limit.Settings], len(stated)),
	}
	for i, g := range stated {
		k.all[i] = gate{Settings: g.Limit.Settings(), name: g.Name, quota: quotaMemory{whole: !g.Keyed}}
		if packed, err := limit.Unpack(k.all[i].Pack()); err == nil { // so that a call need not pack them
			k.all[i].Settings = packed
		}
		k.noteTerms(i, g.Limit.Terms, first)
		k.noteSettings(i)
	}
	return k
}

// noteTerms keeps the terms of a gate for callers. They follow from the guard of the first
// limit.
func (k *Known) noteTerms(gate int, set, first limit.Terms) {
	set = set.Beside(first)
	k.terms[gate].Store(&set)
}

// noteSettings keeps the settings of a gate for callers.
func (k *Known) noteSettings(gate int) {
	set := k.all[gate].Settings
	k.settings[gate].Store(&set)
}

// Spacing is the time between two units of one value of a gate's key, under the settings
// in force.
func (k *Known) Spacing(of slots.Value, now time.Time) time.Duration {
	return k.terms[of.Gate].Load().For(of.Hash, now).GateSpacing()
}

// Settings are those in force of a gate. They are not to be changed.
func (k *Known) Settings(gate int) *limit.Settings { return k.settings[gate].Load() }

// LargestCost is the most units that a job may count on a gate.
func (k *Known) LargestCost(gate int) int64 { return k.all[gate].LargestCost() }

// Outlives reports whether the counts of a gate outlive an epoch and name their windows as before: those of
// the calendar do. Parts of a rolling window move where the clock was set back.
func (k *Known) Outlives(gate int) bool { return k.all[gate].Calendar != "" }

// Take learns from a reply, which was given at now on Redis's clock, beside the terms of the first limit. It reports whether
// settings are news, and whether those of a gate are stricter than before.
func (k *Known) Take(reply script.Choice, now int64, first limit.Terms) (news, stricter bool) {
	for i, set := range reply.Gates {
		g := &k.all[i]
		if !g.known {
			g.known = true
			parameters.WarnOfFile(k.log.With("gate", g.name), g.Settings, set)
		}
		if set == g.Settings || g.Newer(set) {
			continue
		}
		stricter = stricter || set.Stricter(g.Settings)
		k.log.Info("limit settings in force", "gate", g.name, "revision", set.Revision, "by", set.By, "paused", set.Paused, "contract", set.String())
		g.Settings, news = set, true
		k.noteSettings(i)
	}
	for i, state := range reply.Quotas {
		k.noteQuota(&k.all[i], state, now)
	}
	for i, g := range k.all {
		k.noteTerms(i, g.Terms, first)
	}
	return news, stricter
}
