package dlqcmd

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"dispatcher/consumer/dlq"
)

// On a terminal a trial comes first. Where it finds nothing to settle, the command ends with its
// outcome, so letters that arrive meanwhile are not settled unasked.
func TestNothingIsSettledWithoutAYes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		found    int64
		answer   string
		dry      []bool // of each call
		asked    bool
		declined bool
	}{
		"nothing found": {found: 0, answer: "y\n", dry: []bool{true}},
		"yes":           {found: 2, answer: "y\n", dry: []bool{true, false}, asked: true},
		"no":            {found: 2, answer: "n\n", dry: []bool{true}, asked: true, declined: true},
		"no answer":     {found: 2, dry: []bool{true}, asked: true, declined: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := &settling{verb: "drop", done: "dropped"}
			var asked bytes.Buffer
			cmd := &cobra.Command{}
			cmd.SetIn(strings.NewReader(c.answer))
			cmd.SetErr(&asked)
			var dry []bool
			do := x.confirmed(cmd, func(context.Context, *dlq.Client, dlq.Filter) (dlq.Tally, error) {
				dry = append(dry, x.dry)
				return dlq.Tally{Open: 3, Done: c.found, Truncated: 1}, nil
			})
			tally, err := do(t.Context(), nil, dlq.Filter{Topics: []string{"jobs", "sms"}, Parked: true})
			if errors.Is(err, errDeclined) != c.declined || !c.declined && (err != nil || tally.Done != c.found || tally.Left() != 1) {
				t.Errorf("got %+v and error %v, want %d done and 1 left, declined %v", tally, err, c.found, c.declined)
			}
			if !slices.Equal(dry, c.dry) || strings.Contains(asked.String(), "drop 2 of 3 open dead letters of jobs.parked, sms.parked? [y/N]") != c.asked {
				t.Errorf("got runs %v and the question %q, want runs %v, asked %v", dry, asked.String(), c.dry, c.asked)
			}
		})
	}
}
