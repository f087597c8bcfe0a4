package limits

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"dispatcher/configs"
	"dispatcher/internal/timetext"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// Document is a limit as it is in force, and how the file differs from it. Its JSON also has the terms and the guardrails.
type Document struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Counts
	Share     float64        `json:"share"`
	Revision  int64          `json:"revision"`
	Changed   string         `json:"changed,omitempty"`
	By        string         `json:"by,omitempty"`
	Why       string         `json:"why,omitempty"`
	RevertAt  string         `json:"revert_at,omitempty"` // when an override ends
	RevertInS *float64       `json:"revert_in_s,omitempty"`
	RevertTo  map[string]any `json:"revert_to,omitempty"` // in force after that
	InForce   InForce        `json:"in_force"`
	InFile    bool           `json:"in_file"`
	Differs   []Difference   `json:"differs"`
	Binds     *float64       `json:"binds,omitempty"` // share of the last half minute in which jobs waited for it, on the node where it is most; absent: no node works
	Chosen    *Chosen        `json:"lateness_chosen,omitempty"`
	Trips     *RoundTrips    `json:"round_trips,omitempty"` // where the guard is auto
	Slowdown  *Slowdown      `json:"slowdown,omitempty"`    // absent: the cap is in force
	Loss      *Loss          `json:"loss,omitempty"`        // of a quota with a key that waits since then; absent: it does not
	Quota     *QuotaUse      `json:"quota,omitempty"`       // of a quota without a key, or of one value
	Value     *Value         `json:"value,omitempty"`       // of the key, that the document is about

	Settings limit.Settings `json:"-"` // in force; those of a gate beside the first limit
}

// MarshalJSON adds the terms and the guardrails.
func (d Document) MarshalJSON() ([]byte, error) {
	type plain Document // without this method
	return joined{termsOf(d.Settings.Terms), guardrailsOf(d.Settings), plain(d)}.MarshalJSON()
}

// Describe makes the document of a limit whose settings were just read or set.
func (r Reader) Describe(ctx context.Context, operator *control.Control, name string, of *limit.Hash, now limit.Settings) (*Document, error) {
	there, err := operator.Presence(ctx)
	if err != nil {
		return nil, err
	}
	return r.DescribeAt(ctx, operator, name, of, now, there)
}

// DescribeAt is [Reader.Describe] for a caller that knows which nodes there are.
func (r Reader) DescribeAt(ctx context.Context, operator *control.Control, name string, of *limit.Hash, now limit.Settings, there control.Presence) (*Document, error) {
	if now.Gate {
		first, err := r.first(ctx, now)
		if err != nil {
			return nil, err
		}
		now.Terms = now.Beside(first)
	}
	d := r.document(name, now)
	d.InForce, d.Binds = placed(there.Nodes, now), binds(there.Nodes)
	if err := r.observe(ctx, operator, d, of, there.At); err != nil {
		return nil, err
	}
	if !now.RevertAt.IsZero() {
		left := max(0, now.RevertAt.Sub(there.At)).Seconds()
		d.RevertAt, d.RevertInS, d.RevertTo = timetext.Exact(now.RevertAt), &left, following(now.Spans()[1:])
	}
	return d, nil
}

// following are the terms behind an override. They have an end, and what follows it, where another override is on then.
func following(spans []limit.Span) map[string]any {
	terms := termsOf(spans[0].Terms)
	if len(spans) > 1 {
		terms["revert_at"], terms["revert_to"] = timetext.Exact(spans[0].Until), following(spans[1:])
	}
	return terms
}

// document has what follows from the settings and the file alone.
func (r Reader) document(name string, now limit.Settings) *Document {
	d := &Document{
		Name: name, Namespace: r.Config.Redis.Namespace, Counts: CountsOf(r.Config, name), Settings: now,
		Share: now.UsableShare(), Revision: now.Revision, Changed: timetext.Stamp(now.Changed), By: now.By, Why: now.Why,
		Differs: []Difference{},
	}
	if stated, ok := r.Config.Stated(name); ok {
		d.InFile = true
		d.Differs = differences(stated.Settings(), now)
	}
	return d
}

// observe adds what the fleet has seen and used. Of a gate the fleet chooses nothing, and no node reports round trips.
func (r Reader) observe(ctx context.Context, operator *control.Control, d *Document, of *limit.Hash, clock time.Time) (err error) {
	now := d.Settings
	if now.Auto && !now.Gate {
		if d.Chosen, err = r.choices.of(ctx, operator, d.Name, now); err != nil {
			return err
		}
		if d.Trips, err = roundTrips(ctx, operator, now, clock); err != nil {
			return err
		}
	}
	var opening control.Opening
	if now.Gate {
		opening, err = operator.Opening(ctx)
		d.Loss = lossOf(opening, clock)
	} else {
		d.Slowdown, err = slowdown(ctx, operator, now, clock)
	}
	if err != nil {
		return err
	}
	if of != nil {
		d.Value, d.Quota, err = r.value(ctx, operator, *of, now, opening.At, clock)
	} else {
		d.Quota, err = r.quotaUse(ctx, operator, d, clock)
	}
	return err
}

// first are the terms in force of the first limit. The gate's own are like those that the file
// stated when the gate was seeded; they stand in where Redis has no first limit.
func (r Reader) first(ctx context.Context, gate limit.Settings) (limit.Terms, error) {
	operator, err := r.Control(r.First())
	if err != nil {
		return gate.Terms, err
	}
	first, err := operator.Get(ctx)
	if errors.Is(err, control.ErrUnknownLimit) || first.Gate {
		return gate.Terms, nil
	}
	return first.Terms, err
}

// Counts says which jobs a gate counts, as the file states it.
type Counts struct {
	Key  string `json:"key,omitempty"`  // absent: all jobs count together
	When string `json:"when,omitempty"` // absent: every job counts
	Cost string `json:"cost,omitempty"` // absent: a job counts as on the first limit
}

// CountsOf is zero for the first limit, and for one that the file has not.
func CountsOf(cfg configs.Config, name string) Counts {
	for _, g := range cfg.Gates() {
		if g.Name == name {
			return Counts{Key: g.Key, When: g.When, Cost: g.Cost}
		}
	}
	return Counts{}
}

// Difference is a setting that differs between the file and Redis.
type Difference struct {
	Field string `json:"field"`
	File  string `json:"file"`
	Redis string `json:"redis"`
}

// differences are the terms that differ. A guard and a lateness that the fleet chooses
// are both auto.
func differences(file, redis limit.Settings) []Difference {
	found := []Difference{}
	if file.Gate != redis.Gate {
		found = append(found, Difference{"place", placeOf(file.Terms), placeOf(redis.Terms)})
	}
	for _, p := range parameters.UnlikeFile(file, redis) {
		found = append(found, Difference{p.Name, p.Display(file), p.Display(redis)})
	}
	return found
}

// placeOf says which place among the limits the terms are for.
func placeOf(t limit.Terms) string {
	if t.Gate {
		return "beside the first limit"
	}
	return "the first limit"
}

// placed counts the nodes that know the settings.
func placed(nodes []control.Node, now limit.Settings) InForce {
	f := InForce{Of: len(nodes), Lacking: []string{}}
	for _, n := range nodes {
		switch {
		case n.Has(now):
			f.Nodes++
		case n.Missing():
			f.Lacking = append(f.Lacking, fmt.Sprintf("%s (not seen for %s)", n.Name, n.Seen.Round(100*time.Millisecond)))
		default:
			f.Lacking = append(f.Lacking, n.Name)
		}
	}
	return f
}

// binds is the share of the time in which jobs waited for the limit, on the node where it is most.
func binds(nodes []control.Node) (most *float64) {
	for _, n := range nodes {
		if !n.Missing() && (most == nil || n.Binds > *most) {
			most = &n.Binds
		}
	}
	return most
}

// InForce is the number of nodes on which the settings are in force.
type InForce struct {
	Nodes   int      `json:"nodes"`
	Of      int      `json:"of"`
	AfterS  *float64 `json:"after_s,omitempty"` // where it was waited for
	Lacking []string `json:"lacking"`
}

func (f InForce) String() string {
	text := fmt.Sprintf("in force on %d/%d nodes", f.Nodes, f.Of)
	if f.AfterS != nil {
		text += fmt.Sprintf(" after %d ms", int64(*f.AfterS*1000))
	}
	if len(f.Lacking) > 0 {
		text += ", not yet on " + strings.Join(f.Lacking, ", ")
	}
	return text
}
