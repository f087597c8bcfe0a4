package node

import (
	"context"
	"strings"
	"time"

	"dispatcher/admin"
	"dispatcher/consumer"
	"dispatcher/internal/clip"
	"dispatcher/internal/figures"
	"dispatcher/internal/gathered"
	"dispatcher/internal/node/pacer"
	"dispatcher/internal/node/worker"
	"dispatcher/internal/timetext"
	"dispatcher/internal/version"
	"dispatcher/throttle/limit"
)

// The counters that a node publishes. [worker.CalledUnits] is one more.
const (
	countedCalls       = "dispatcher_sender_calls_total"
	countedDeadLetters = "dispatcher_consumer_dead_letters_total"
	countedGranted     = "dispatcher_limit_granted_units_total"
	countedLate        = "dispatcher_limit_late_slots_total"
	countedScriptCalls = "dispatcher_limit_script_calls_total"
)

// takeFigures are what the node publishes of itself.
func (n *Node) takeFigures(ctx context.Context) figures.Figures {
	f := figures.Figures{Name: Name(n.cfg), Version: version.Text(), UpS: time.Since(n.started).Seconds()}
	n.figureHealth(ctx, &f)
	n.figureLimit(&f)
	n.figureJobs(&f)
	n.figureKeys(&f)
	if families, err := n.registry.counters.Gather(); err == nil {
		all := gathered.Families(families)
		f.Calls = all.Counters(countedCalls, "result")
		f.Units = all.Sum(worker.CalledUnits)
		f.DeadLetters = all.Counters(countedDeadLetters, "class")
		f.Granted = all.Sum(countedGranted)
		f.LateSlots = all.Sum(countedLate)
		f.ScriptCalls = all.Sum(countedScriptCalls)
	}
	return f
}

const mostShown = 1024 // bytes of the text of a check

func (n *Node) figureHealth(ctx context.Context, f *figures.Figures) {
	found := admin.Ask(ctx, n.checks)
	f.Ready = found.Ready
	for _, c := range found.Checks {
		f.Checks = append(f.Checks, figures.Check{Name: c.Name, Note: clip.Shown(c.Note, mostShown), Error: clip.Shown(c.Error, mostShown)})
	}
}

func (n *Node) figureLimit(f *figures.Figures) {
	s := n.limiter.State()
	f.Rules = n.rules.Revision()
	f.Phase, f.Note, f.Changed, f.ProviderDown = string(s.Phase), s.Note(), s.Settings.Changed.UnixMicro(), n.provider.Down()
	if !s.Settings.Paused {
		f.Cap = perSecond(float64(s.Settings.Cap), s.Settings.Contract)
		f.Eff = perSecond(s.Slowdown.EffectiveCap(s.Settings.Contract), s.Settings.Contract)
	}
	waiting := n.consumer.Deferred()
	for name, jobs := range waiting {
		if strings.HasPrefix(name, pacer.HeldBy) {
			f.Held += jobs
		}
	}
	for i, stated := range n.cfg.Limits {
		f.Limits = append(f.Limits, figures.Limit{Name: stated.Name, Waiting: waiting[stated.Name], Binds: n.limiter.Binds(i), Paused: pauseOf(n.limiter.Settings(i))})
	}
}

// pauseOf is nil where the limit is not paused.
func pauseOf(s limit.Settings) *figures.Pause {
	if !s.Paused {
		return nil
	}
	return &figures.Pause{By: s.By, Until: timetext.Exact(s.PauseEnds())}
}

func perSecond(units float64, c limit.Contract) float64 { return units / c.Window.Seconds() }

// figureJobs adds lanes and topics. The jobs that are ready wait for the first limit.
func (n *Node) figureJobs(f *figures.Figures) {
	s := n.consumer.Status()
	backlog := n.consumer.Backlog(figures.MostExpiring / max(1, len(s.Lanes)))
	now := time.Now()
	if n.cfg.Cost != "" { // the headers do not say what these jobs count
		for i := range backlog {
			backlog[i].Units = 0
		}
	}
	for i, l := range s.Lanes {
		f.Lanes = append(f.Lanes, figures.Lane{
			Name: l.Lane, Waiting: l.Waiting, InFlight: l.InFlight, Ready: l.Ready, Asleep: l.Asleep, Delayed: l.Delayed,
			OldestS: l.Oldest.Seconds(), PerS: l.Rate, Fetched: backlog[i].Jobs, Units: backlog[i].Units, Expires: expiringOf(backlog[i].Expires, now),
		})
		f.Limits[0].Waiting += l.Ready
	}
	at := make(map[string]int)
	for _, p := range s.Partitions {
		i, known := at[p.Topic]
		if !known {
			i = len(f.Topics)
			at[p.Topic], f.Topics = i, append(f.Topics, figures.Topic{Name: p.Topic, Lane: p.Lane})
		}
		f.Topics[i].Partitions++
		f.Topics[i].Lag += p.Lag
	}
}

func expiringOf(all []consumer.Expiring, now time.Time) (list []figures.Expiring) {
	for _, e := range all {
		list = append(list, figures.Expiring{Ahead: e.Ahead, Among: e.Among, Jobs: e.Jobs, InS: e.At.Sub(now).Round(time.Second / 10).Seconds()})
	}
	return list
}

// lookedAt is how many jobs are looked at for the keys with the longest backlog.
const lookedAt = 4096

func (n *Node) figureKeys(f *figures.Figures) {
	for _, one := range n.consumer.Piles(figures.MostKeys, lookedAt, n.gates.ValueOf) {
		hash := limit.Hash(one.Value)
		if one.Limit == "" {
			hash = limit.HashOf(string(one.Key))
		}
		f.Keys = append(f.Keys, figures.Key{Limit: one.Limit, Hash: hash.String(), Jobs: one.Jobs, AtLeast: one.AtLeast})
	}
}

// healthChecks are the parts of the node's health, in /readyz and in its figures.
func (n *Node) healthChecks() []admin.Check {
	checks := []admin.Check{
		{Name: "kafka", Check: func(context.Context) (string, error) { s := n.consumer.Status(); return s.Note(), s.Ready() }},
		{Name: "limit", Check: func(context.Context) (string, error) { s := n.limiter.State(); return s.Note(), s.Ready() }},
		{Name: "provider", Check: func(context.Context) (string, error) { return n.provider.State(), nil }},
	}
	if n.rules != nil {
		checks = append(checks, admin.Check{Name: "rules", Check: func(context.Context) (string, error) { return "", n.rules.Ready() }})
	}
	if n.dedup != nil {
		checks = append(checks, admin.Check{Name: "dedup", Check: func(context.Context) (string, error) { return "", n.dedup.Ready() }})
	}
	return checks
}
