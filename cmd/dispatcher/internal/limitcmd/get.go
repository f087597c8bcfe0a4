package limitcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

func newGetCommand(s *cli.Settings, asJSON *bool) *cobra.Command {
	var one value
	cmd := &cobra.Command{
		Use: "get NAME", Short: "Show the limit in force, and where the file differs from it", Args: cli.OneName("limit", "NAME"),
		Example: "  dispatcher limit get provider\n  dispatcher limit get recipient --key +46701234567",
	}
	one.flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		of, err := one.of(cmd.Flags())
		if err != nil {
			return flagged(err)
		}
		return connected(s, cmd, args[0], of, func(ctx context.Context, conn limitConn) error {
			now, err := conn.control.Get(ctx)
			if err != nil {
				return err
			}
			return conn.show(ctx, cmd.OutOrStdout(), now, *asJSON, false, nil)
		})
	}
	return cmd
}

// show prints the settings, and the nodes on which they are in force: those that a wait
// has confirmed, or those that know the settings now. Unconfirmed means that a change was
// made a moment ago, without a wait.
func (c limitConn) show(ctx context.Context, w io.Writer, now limit.Settings, asJSON, unconfirmed bool, confirmed *inForce) error {
	nodes, err := c.control.Nodes(ctx)
	if err != nil {
		return err
	}
	clock, err := c.control.Now(ctx)
	if err != nil {
		return err
	}
	if now.Gate {
		first, err := c.first(ctx, now)
		if err != nil {
			return err
		}
		now.Terms = now.Beside(first)
	}
	report := newLimitState(c.cfg, c.name, now)
	report.unconfirmed, report.InForce, report.Binds = unconfirmed, placed(nodes, now), binds(nodes)
	if confirmed != nil {
		report.InForce = *confirmed
	}
	if now.Auto && !now.Gate { // otherwise the fleet chooses nothing, and no node reports round trips
		if report.Chosen, err = c.chosenLateness(ctx); err != nil {
			return err
		}
		if report.Trips, err = c.roundTrips(ctx, now, clock); err != nil {
			return err
		}
	}
	if !now.Gate {
		if report.Slowdown, err = c.slowdownState(ctx, now, clock); err != nil {
			return err
		}
	}
	if c.value != nil {
		report.Value, report.Quota, err = c.valueState(ctx, now, clock)
	} else {
		report.Quota, err = c.quotaUse(ctx, now, clock)
	}
	if err != nil {
		return err
	}
	if !now.RevertAt.IsZero() {
		left := max(0, now.RevertAt.Sub(clock)).Seconds()
		report.RevertAt, report.RevertInS, report.RevertTo = cli.Exact(now.RevertAt), &left, termsOf(now.RevertTo)
	}
	if asJSON {
		return cli.PrintJSON(w, cli.Merged{termsOf(now.Terms), guardrailsOf(now), report})
	}
	return report.print(w, now)
}

// first are the terms in force of the first limit. The gate's own are like those that the file
// stated when the gate was seeded; they stand in where Redis has no first limit.
func (c limitConn) first(ctx context.Context, gate limit.Settings) (limit.Terms, error) {
	operator, err := control.NewControl(c.rdb, c.cfg.Redis.Namespace, c.cfg.Limits[0].Name)
	if err != nil {
		return gate.Terms, err
	}
	first, err := operator.Get(ctx)
	if errors.Is(err, control.ErrUnknownLimit) || first.Gate {
		return gate.Terms, nil
	}
	return first.Terms, err
}

// placed counts the nodes that know the settings.
func placed(nodes []control.Node, now limit.Settings) inForce {
	f := inForce{Of: len(nodes), Lacking: []string{}}
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

// inForce is the number of nodes on which the settings are in force.
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
