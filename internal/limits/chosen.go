package limits

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"dispatcher/internal/timetext"
	"dispatcher/throttle/control"
	"dispatcher/throttle/lateness"
	"dispatcher/throttle/limit"
)

// Chosen is when and why the fleet chose the lateness that is in force.
type Chosen struct {
	At  string `json:"at"`
	Why string `json:"why"`
}

// choices remembers the last answer. It is the same as long as the settings are, and to find it may take the whole history.
type choices struct{ last atomic.Pointer[choice] }

// choice is the answer for the settings of one limit that were set at a time.
type choice struct {
	name     string
	revision int64
	changed  time.Time
	chosen   *Chosen // nil: the fleet did not choose the lateness
}

// of is the fleet's choice under the settings that are in force.
func (c *choices) of(ctx context.Context, operator *control.Control, name string, now limit.Settings) (*Chosen, error) {
	if l := c.last.Load(); l != nil && l.name == name && l.revision == now.Revision && l.changed.Equal(now.Changed) {
		return l.chosen, nil
	}
	chosen, err := chosenLateness(ctx, operator)
	if err == nil {
		c.last.Store(&choice{name, now.Revision, now.Changed, chosen})
	}
	return chosen, err
}

// chosenLateness finds the fleet's choice in the history, if no later change replaced it.
func chosenLateness(ctx context.Context, operator *control.Control) (*Chosen, error) {
	const far = 1000 // all there is
	entries, err := operator.History(ctx, far)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Chosen() {
			return &Chosen{At: timetext.Exact(e.To.Changed), Why: strings.TrimPrefix(e.To.Why, lateness.WhyPrefix)}, nil
		}
		if !e.From.Auto || e.From.Lateness != e.To.Lateness {
			break // an operator set another one since
		}
	}
	return nil, nil //nolint:nilnil // there is none
}
