package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"dispatcher/configs"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

func newLimitGetCommand(s *settings, asJSON *bool) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Show the limit in force, and where the file says otherwise", Args: oneName("limit", "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.connected(cmd, args[0], func(ctx context.Context, conn limitConn) error {
				now, err := conn.control.Get(ctx)
				if err != nil {
					return err
				}
				return conn.show(ctx, cmd.OutOrStdout(), now, *asJSON, nil)
			})
		},
	}
}

// awaited is how a wait for the nodes ended, after a change.
type awaited struct {
	waited bool // false: the change was made a moment ago
	nodes  int
	took   time.Duration
	err    error
}

// show prints the settings, and on which nodes they are in force by now.
func (c limitConn) show(ctx context.Context, w io.Writer, now limit.Settings, asJSON bool, a *awaited) error {
	nodes, err := c.control.Nodes(ctx)
	if err != nil {
		return err
	}
	clock, err := c.control.Now(ctx)
	if err != nil {
		return err
	}
	report := newLimitState(c.cfg, c.name, now)
	report.place(nodes, now, a)
	if report.Chosen, err = c.chosenLateness(ctx, now); err != nil {
		return err
	}
	if now.Auto { // else nobody reports any
		if report.Trips, err = c.roundTrips(ctx, now, clock); err != nil {
			return err
		}
	}
	if !now.RevertAt.IsZero() {
		left := max(0, now.RevertAt.Sub(clock)).Seconds()
		then := newTermsState(now.RevertTo)
		report.RevertAt, report.RevertInS, report.RevertTo = exact(now.RevertAt), &left, &then
	}
	if asJSON {
		return printJSON(w, report)
	}
	return report.print(w, now)
}

// place notes which nodes know the settings: those that a wait ended with, or
// those of now.
func (s *limitState) place(nodes []control.Node, now limit.Settings, a *awaited) {
	s.InForce = inForce{Of: len(nodes), Lacking: []string{}}
	for _, n := range nodes {
		switch {
		case n.Has(now):
			s.InForce.Nodes++
		case n.Missing():
			s.InForce.Lacking = append(s.InForce.Lacking, fmt.Sprintf("%s (not seen for %s)", n.Name, n.Seen.Round(100*time.Millisecond)))
		default:
			s.InForce.Lacking = append(s.InForce.Lacking, n.Name)
		}
	}
	s.unconfirmed = a != nil && !a.waited
	if a != nil && a.waited && a.err == nil {
		after := a.took.Seconds()
		s.InForce = inForce{Nodes: a.nodes, Of: a.nodes, AfterS: &after, Lacking: []string{}}
	}
}

// inForce says on how many nodes the settings are in force.
type inForce struct {
	Nodes   int      `json:"nodes"`
	Of      int      `json:"of"`
	AfterS  *float64 `json:"after_s,omitempty"` // where it was waited for
	Lacking []string `json:"lacking"`
}

func (f inForce) String() string {
	text := fmt.Sprintf("in force on %d/%d nodes", f.Nodes, f.Of)
	if f.AfterS != nil {
		text += fmt.Sprintf(" after %d ms", int64(*f.AfterS*1000))
	}
	if len(f.Lacking) > 0 {
		text += ", not yet on " + strings.Join(f.Lacking, ", ")
	}
	return text
}

// limitState is a limit as it is in force, and how the file differs from it.
type limitState struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	termsState
	Share     float64      `json:"share"`
	Revision  int64        `json:"revision"`
	Changed   string       `json:"changed,omitempty"`
	By        string       `json:"by,omitempty"`
	Why       string       `json:"why,omitempty"`
	MaxCap    int64        `json:"max_cap"`             // 0: none
	MaxStep   float64      `json:"max_step"`            // a factor; 0: none
	RevertAt  string       `json:"revert_at,omitempty"` // when an override ends
	RevertInS *float64     `json:"revert_in_s,omitempty"`
	RevertTo  *termsState  `json:"revert_to,omitempty"` // the terms that hold then
	InForce   inForce      `json:"in_force"`
	InFile    bool         `json:"in_file"`
	Differs   []difference `json:"differs"`
	Chosen    *chosen      `json:"lateness_chosen,omitempty"`
	Trips     *roundTrips  `json:"round_trips,omitempty"` // where the guard is auto

	unconfirmed bool // changed just now, and nobody waited for the nodes
}

// chosen is when and why the fleet chose the lateness that is in force.
type chosen struct {
	At  string `json:"at"`
	Why string `json:"why"`
}

// chosenLateness finds the choice in the history, if it is still the last word.
func (c limitConn) chosenLateness(ctx context.Context, now limit.Settings) (*chosen, error) {
	const far = 1000 // all there is
	if !now.Auto {
		return nil, nil //nolint:nilnil // there is none
	}
	entries, err := c.control.History(ctx, far)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Chosen() {
			return &chosen{At: exact(e.Changed), Why: strings.TrimPrefix(e.Why, "guard auto: ")}, nil
		}
		if !e.From.Auto || e.From.Lateness != e.To.Lateness {
			break // somebody stated another one since
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

// difference is one setting of which the file and Redis say different things.
type difference struct {
	Field string `json:"field"`
	File  string `json:"file"`
	Redis string `json:"redis"`
}

func newLimitState(cfg configs.Config, name string, now limit.Settings) limitState {
	state := limitState{
		Name: name, Namespace: cfg.Redis.Namespace,
		termsState: newTermsState(now.Terms),
		Share:      now.UsableShare(), Revision: now.Revision, Changed: stamp(now.Changed), By: now.By, Why: now.Why,
		MaxCap: now.MaxCap, MaxStep: now.MaxStep, Differs: []difference{},
	}
	for _, l := range cfg.Limits {
		if l.Name == name {
			state.InFile = true
			state.Differs = differences(stated(l), now.Terms)
		}
	}
	return state
}

// stated are the terms that the file states.
func stated(l configs.Limit) limit.Terms {
	return l.Stated().Settings().Terms
}

func differences(file, redis limit.Terms) []difference {
	found := []difference{}
	for _, d := range []difference{
		{"algorithm", file.Algorithm, redis.Algorithm},
		{"cap", fmt.Sprint(file.Cap), fmt.Sprint(redis.Cap)},
		{"window", short(file.Window), short(redis.Window)},
		{"burst", fmt.Sprint(file.Burst), fmt.Sprint(redis.Burst)},
		{"guard", guardText(file), guardText(redis)},
		{"spread", short(file.Spread), short(redis.Spread)},
		{"lateness", latenessText(file), latenessText(redis)},
		{"horizon", short(file.Horizon), short(redis.Horizon)},
		{"reserve", fmt.Sprint(file.Reserve), fmt.Sprint(redis.Reserve)},
		{"max_nodes", fmt.Sprint(file.MaxNodes), fmt.Sprint(redis.MaxNodes)},
	} {
		if d.File != d.Redis {
			found = append(found, d)
		}
	}
	return found
}

// guardText is a guard as the configuration states it.
func guardText(c limit.Terms) string {
	if c.Auto {
		return configs.GuardAuto
	}
	return short(c.Guard)
}

// latenessText is a lateness, where it is not the fleet's to choose.
func latenessText(c limit.Terms) string {
	if c.Auto {
		return configs.GuardAuto
	}
	return short(c.Lateness)
}

// stamp is a time for people; none is empty.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// brief are the terms that people look for.
func brief(t limit.Terms) string {
	text := fmt.Sprintf("at most %d in any %s, burst %d", t.Cap, short(t.Window), t.Burst)
	if t.Paused {
		text += ", paused"
	}
	return text
}

// soon is when an override ends. The change is made by the next node that asks,
// so one that is over may still be in force.
func soon(seconds float64) string {
	left := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	if left <= 0 {
		return "over, with the next poll of a node"
	}
	return "in " + left.String()
}

func (s limitState) print(w io.Writer, now limit.Settings) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "limit %s: %s\n", s.Name, brief(now.Terms))
	if s.RevertAt != "" {
		_, _ = fmt.Fprintf(table, "  until %s (%s), then %s\n", stamp(now.RevertAt), soon(*s.RevertInS), brief(now.RevertTo))
	}
	if s.unconfirmed {
		_, _ = fmt.Fprintf(table, "  acts within %s; no node has confirmed it yet (--wait does)\n", now.Reaction())
	} else {
		_, _ = fmt.Fprintf(table, "  %s\n", s.InForce)
	}
	_, _ = fmt.Fprintf(table, "  algorithm\t%s\t\n", now.Algorithm)
	_, _ = fmt.Fprintf(table, "  usable share\t%.3f\tof the cap: %.1f calls a window\n", s.Share, s.Share*float64(now.Cap))
	printWaste(table, s.Share)
	_, _ = fmt.Fprintf(table, "  guard\t%s\t%s\n", short(now.Guard), s.guardWhy(now))
	if s.Trips != nil {
		s.Trips.row(table, now)
	}
	_, _ = fmt.Fprintf(table, "  acts within\t%s\ton every node that knows it\n", now.Reaction())
	if s.Changed == "" {
		_, _ = fmt.Fprintf(table, "  revision\t%d\tseeded from a file\n", s.Revision)
	} else {
		_, _ = fmt.Fprintf(table, "  revision\t%d\tof %s by %s%s\n", s.Revision, s.Changed, s.By, because(s.Why))
	}
	if s.MaxCap != 0 {
		_, _ = fmt.Fprintf(table, "  max_cap\t%d\ta higher cap needs --force\n", s.MaxCap)
	}
	if s.MaxStep != 0 {
		_, _ = fmt.Fprintf(table, "  max_step\t%g\ta larger factor, up or down, needs --force\n", s.MaxStep)
	}
	for _, d := range s.Differs {
		_, _ = fmt.Fprintf(table, "  %s\t%s\tbut %s in this configuration, which only seeds\n", d.Field, d.Redis, d.File)
	}
	if !s.InFile {
		_, _ = fmt.Fprintln(table, "  this configuration states no limit of this name")
	}
	return table.Flush()
}

// guardWhy says where the guard comes from.
func (s limitState) guardWhy(now limit.Settings) string {
	parts := fmt.Sprintf("lateness %s, the rest for the way to the provider", short(now.Lateness))
	if !now.Auto {
		return "stated: " + parts
	}
	parts = fmt.Sprintf("auto: lateness %s, spread %s", short(now.Lateness), short(now.Spread))
	if s.Chosen == nil {
		return parts + "; the fleet has seen no reason for another lateness yet"
	}
	return fmt.Sprintf("%s; chosen %s: %s", parts, s.Chosen.At, s.Chosen.Why)
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}
