package overview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"dispatcher/internal/figures"
	"dispatcher/internal/limits"
	"dispatcher/internal/timetext"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// Stale is the age from which on a node's figures count for nothing.
const Stale = 5 * time.Second

// Fleet is a fleet at one moment. Its JSON is `GET /api/v1/overview`.
type Fleet struct {
	At          string             `json:"at"` // by Redis's clock
	Health      Health             `json:"health"`
	Limit       *limits.Document   `json:"limit"`  // the first one
	Limits      []Limit            `json:"limits"` // all of them, as the nodes see them
	Nodes       []Node             `json:"nodes"`
	Lanes       []Lane             `json:"lanes"`
	Topics      []Topic            `json:"topics"`
	Keys        []Key              `json:"keys"`         // that most jobs wait for, the longest backlog first
	DeadLetters map[string]float64 `json:"dead_letters"` // that these nodes wrote since their starts, by class
	Forecast    Forecast           `json:"forecast"`

	now     time.Time
	expires []expiring
}

// Node is a node of the fleet.
type Node struct {
	Name    string  `json:"name"`
	ID      string  `json:"id"`       // unique per start
	SeenS   float64 `json:"seen_s"`   // ago, by the limiter
	Missing bool    `json:"missing"`  // it died, stands still or is cut off
	InForce bool    `json:"in_force"` // it knows the settings of the first limit
	Binds   float64 `json:"binds"`    // share of the last half minute in which its jobs waited for the first limit
	Share   float64 `json:"share"`    // of the fleet's calls, of late
	AgeS    float64 `json:"age_s"`    // of the figures
	Stale   bool    `json:"stale"`    // they are too old to count, or there are none

	Figures *Figures `json:"figures,omitempty"` // absent: it said none within a minute
}

// Figures are what a node says of itself.
type Figures = figures.Figures

// Lane is a lane of the whole fleet.
type Lane struct {
	figures.Lane

	DrainS *float64 `json:"drain_s"` // until all that waits, is in flight or asleep would be settled at the present rate; null: not within a year
}

// Topic is a topic of the whole fleet.
type Topic = figures.Topic

// Key is a key that jobs of the whole fleet wait for.
type Key = figures.Key

// Limit is a limit as all nodes see it.
type Limit = figures.Limit

// Reader reads overviews.
type Reader struct{ limits.Reader }

// Read is the fleet now. It returns [control.ErrUnknownLimit] where Redis does not know the first limit yet: no node ever worked.
func (r Reader) Read(ctx context.Context) (*Fleet, error) {
	name := r.First()
	operator, err := r.Control(name)
	if err != nil {
		return nil, err
	}
	settings, err := operator.Get(ctx)
	if errors.Is(err, control.ErrUnknownLimit) {
		return nil, fmt.Errorf("%w: either no node ever worked here, or %q is not the fleet's first limit: give the nodes' configuration with -c", err, name)
	}
	if err != nil {
		return nil, err
	}
	there, err := operator.Presence(ctx)
	if err != nil {
		return nil, err
	}
	f := &Fleet{now: there.At, At: timetext.Exact(there.At)}
	if f.Limit, err = r.DescribeAt(ctx, operator, name, nil, settings, there); err != nil {
		return nil, err
	}
	if f.Nodes, err = nodesOf(ctx, r.Reader, there, settings); err != nil {
		return nil, err
	}
	f.join()
	f.Forecast = f.forecast(settings)
	f.Health = f.judge()
	return f, nil
}

// Live is a fleet at one moment, with what it did in the seconds before.
type Live struct {
	*Fleet

	Calls figures.Calls `json:"calls"`
}

// Live is the fleet now, with the calls of the last seconds. It returns the errors of [Reader.Read].
func (r Reader) Live(ctx context.Context, seconds int) (l Live, err error) {
	if l.Fleet, err = r.Read(ctx); err != nil {
		return l, err
	}
	l.Calls, err = figures.ReadCalls(ctx, r.Redis, r.Config.Redis.Namespace, l.now, seconds)
	return l, err
}

// nodesOf are the nodes that the limiter knows, with what they say of themselves.
func nodesOf(ctx context.Context, r limits.Reader, there control.Presence, settings limit.Settings) ([]Node, error) {
	said, err := figures.Read(ctx, r.Redis, r.Config.Redis.Namespace, there.At)
	if err != nil {
		return nil, err
	}
	all := make([]Node, len(there.Nodes))
	for i, k := range there.Nodes {
		all[i] = Node{Name: k.Name, ID: k.ID, SeenS: k.Seen.Seconds(), Missing: k.Missing(), InForce: k.Has(settings), Binds: k.Binds, Stale: true}
		which := slices.IndexFunc(said, func(s figures.Node) bool { return s.Name == k.Name })
		if which < 0 {
			continue
		}
		s := said[which]
		said = slices.Delete(said, which, which+1) // of two nodes of one name, the other takes the other's
		all[i].Figures, all[i].AgeS, all[i].Stale = &s.Figures, s.Age.Seconds(), s.Age > Stale
	}
	return all, nil
}

// fresh are the figures that count.
func (f *Fleet) fresh() (all []*Figures) {
	for _, n := range f.Nodes {
		if !n.Stale {
			all = append(all, n.Figures)
		}
	}
	return all
}

// join adds up over the nodes.
func (f *Fleet) join() {
	f.Lanes, f.Topics, f.Keys, f.Limits, f.DeadLetters = []Lane{}, []Topic{}, []Key{}, []Limit{}, map[string]float64{}
	calls := 0.0
	for _, n := range f.fresh() {
		calls += n.CallsPerS
		for class, count := range n.DeadLetters {
			f.DeadLetters[class] += count
		}
		for _, l := range n.Lanes {
			f.addLane(l)
		}
		for _, t := range n.Topics {
			f.addTopic(t)
		}
		for _, k := range n.Keys {
			f.addKey(k)
		}
		for _, l := range n.Limits {
			f.addLimit(l)
		}
	}
	for i, n := range f.Nodes {
		if !n.Stale && calls > 0 {
			f.Nodes[i].Share = n.Figures.CallsPerS / calls
		}
	}
	for i := range f.Lanes {
		l := &f.Lanes[i]
		l.DrainS = seconds(left(l.Lane), l.PerS)
	}
	f.collectExpiring()
	slices.SortStableFunc(f.Keys, func(a, b Key) int { return cmp.Compare(b.Jobs, a.Jobs) })
	f.Keys = f.Keys[:min(len(f.Keys), figures.MostKeys)]
	slices.SortFunc(f.Topics, func(a, b Topic) int { return cmp.Compare(a.Name, b.Name) })
}

// left are the jobs of the lane that are not settled, but those of retry topics, which wait for their time.
func left(l figures.Lane) float64 {
	return float64(l.Waiting) + float64(l.InFlight) + float64(l.Asleep)
}

// longestForecast is the longest time that is forecast. The rate of a fleet that settles nothing decays towards 0, and what would
// take longer at such a rate takes for ever.
const longestForecast = 365 * 24 * time.Hour

// seconds is nil where it would take longer than [longestForecast], or for ever.
func seconds(jobs, perSecond float64) *float64 {
	s := jobs / perSecond
	if jobs == 0 {
		s = 0
	}
	if math.IsNaN(s) || s > longestForecast.Seconds() {
		return nil
	}
	return &s
}

// addLane keeps the order of the lanes, which is that of their priority and the same on all nodes.
func (f *Fleet) addLane(l figures.Lane) {
	for i := range f.Lanes {
		if all := &f.Lanes[i].Lane; all.Name == l.Name {
			all.Waiting, all.InFlight, all.Ready = all.Waiting+l.Waiting, all.InFlight+l.InFlight, all.Ready+l.Ready
			all.Asleep, all.Delayed, all.PerS = all.Asleep+l.Asleep, all.Delayed+l.Delayed, all.PerS+l.PerS
			all.OldestS = max(all.OldestS, l.OldestS)
			all.Fetched, all.Units = all.Fetched+l.Fetched, all.Units+l.Units
			return
		}
	}
	l.Expires = nil
	f.Lanes = append(f.Lanes, Lane{Lane: l})
}

func (f *Fleet) addTopic(t Topic) {
	for i := range f.Topics {
		if all := &f.Topics[i]; all.Name == t.Name {
			all.Partitions, all.Lag = all.Partitions+t.Partitions, all.Lag+t.Lag
			return
		}
	}
	f.Topics = append(f.Topics, t)
}

// addKey adds up over the nodes that named the key among their longest. Another node may have some jobs of it too.
func (f *Fleet) addKey(k Key) {
	for i := range f.Keys {
		if all := &f.Keys[i]; all.Limit == k.Limit && all.Hash == k.Hash {
			all.Jobs, all.AtLeast = all.Jobs+k.Jobs, all.AtLeast || k.AtLeast
			return
		}
	}
	f.Keys = append(f.Keys, k)
}

func (f *Fleet) addLimit(l Limit) {
	for i := range f.Limits {
		if all := &f.Limits[i]; all.Name == l.Name {
			all.Waiting, all.Binds, all.Paused = all.Waiting+l.Waiting, max(all.Binds, l.Binds), cmp.Or(all.Paused, l.Paused)
			return
		}
	}
	f.Limits = append(f.Limits, l)
}

// waiting are the jobs of all lanes that are not settled.
func (f *Fleet) waiting() (jobs float64) {
	for i := range f.Lanes {
		jobs += left(f.Lanes[i].Lane)
	}
	return jobs
}

// perSecond are the jobs of all lanes that are settled in a second, of late.
func (f *Fleet) perSecond() (jobs float64) {
	for _, l := range f.Lanes {
		jobs += l.PerS
	}
	return jobs
}

// Now is the moment, by Redis's clock.
func (f *Fleet) Now() time.Time { return f.now }
