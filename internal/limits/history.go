package limits

import (
	"slices"

	"dispatcher/internal/timetext"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// Entry is one limit of a list. Its JSON has the terms as well.
type Entry struct {
	Name     string
	Settings limit.Settings
	Counts   Counts
}

// MarshalJSON writes the terms and what else a list says of a limit.
func (e Entry) MarshalJSON() ([]byte, error) {
	return joined{termsOf(e.Settings.Terms), struct {
		Name     string `json:"name"`
		Revision int64  `json:"revision"`
		RevertAt string `json:"revert_at,omitempty"`
		Counts
	}{e.Name, e.Settings.Revision, timetext.Exact(e.Settings.RevertAt), e.Counts}}.MarshalJSON()
}

// Line is a change of the settings, or what became of a slowdown.
type Line struct {
	Change *control.Entry // nil: it is an event
	Event  control.Event
}

// merged are the last n changes and events together, the newest first.
func merged(entries []control.Entry, events []control.Event, n int) []Line {
	all := []Line{}
	for _, e := range entries {
		all = append(all, Line{Change: &e, Event: control.Event{At: e.To.Changed}})
	}
	for _, e := range events {
		all = append(all, Line{Event: e})
	}
	slices.SortStableFunc(all, func(a, b Line) int { return b.Event.At.Compare(a.Event.At) })
	return all[:min(n, len(all))]
}

// Change is one change as JSON shows it of a limit.
type Change struct {
	Revision int64          `json:"revision"`
	Changed  string         `json:"changed"`
	By       string         `json:"by"`
	Why      string         `json:"why,omitempty"`
	Undid    int64          `json:"undid,omitempty"` // the revision that it took back
	RevertAt string         `json:"revert_at,omitempty"`
	From     map[string]any `json:"from"`
	To       map[string]any `json:"to"`
}

// Event is what became of a slowdown.
type Event struct {
	At    string `json:"at"`
	Event string `json:"event"`
	By    string `json:"by"`
}

// MarshalJSON writes a change with the settings before and after it, or an event.
func (l Line) MarshalJSON() ([]byte, error) {
	if l.Change == nil {
		return joined{Event{At: timetext.Exact(l.Event.At), Event: l.Event.Text, By: l.Event.By}}.MarshalJSON()
	}
	to := l.Change.To
	return joined{guardrailsOf(to), Change{
		Revision: to.Revision, Changed: timetext.Exact(to.Changed), By: to.By, Why: to.Why, Undid: to.Undid, RevertAt: timetext.Exact(to.RevertAt),
		From: termsOf(l.Change.From.Terms), To: termsOf(to.Terms),
	}}.MarshalJSON()
}
