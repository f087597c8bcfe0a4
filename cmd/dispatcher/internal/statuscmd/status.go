package statuscmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/internal/overview"
)

// timeout is for how long one picture of the fleet is awaited.
const timeout = 5 * time.Second

// New is `dispatcher status`.
func New(s *cli.Settings) *cobra.Command {
	var asJSON, once, check bool
	cmd := &cobra.Command{
		Use: "status", Short: "Show what the whole fleet does, and what holds its jobs up", Args: cobra.NoArgs,
		Long: "Show what the whole fleet does: what holds its jobs up, the first limit, lanes, limits, nodes, topics and dead letters.\n" +
			"On a terminal the picture is read again each second, until q or Ctrl-C. Elsewhere it is printed once.\n" +
			"The exit status is 0 if the fleet could be read, and 1 otherwise.",
		Example: "  dispatcher status\n  dispatcher status --check && ./deploy\n  dispatcher status --json | jq -r .health.text",
	}
	cmd.Flags().BoolVar(&once, "once", false, "print one picture and exit, also on a terminal")
	cmd.Flags().BoolVar(&check, "check", false, "as --once, and exit with 1 if somebody should look")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one picture as JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		fleet, closed, err := connected(s, cmd)
		if err != nil {
			return err
		}
		defer closed()
		read := func() (picture, error) { return readPicture(cmd.Context(), fleet) }
		p, err := read()
		if err != nil {
			return fmt.Errorf("status: %w", err)
		}
		out := cmd.OutOrStdout()
		switch {
		case asJSON:
			err = cli.PrintJSON(out, p)
		case !once && !check && cli.IsTerminal(out) && cli.IsTerminal(cmd.InOrStdin()):
			return watch(cmd.Context(), p, read, out)
		default:
			_, err = fmt.Fprint(out, pageOf(p, 0, false).text())
		}
		if check && p.Health.Warn {
			err = errors.Join(err, fmt.Errorf("status: somebody should look: %s", cli.Plainly(reason(p.Health), 0)))
		}
		return err
	}
	return cmd
}

// reason is why somebody should look.
func reason(h overview.Health) string {
	if h.Lacks == "" {
		return h.Text
	}
	return h.Text + " " + h.Lacks
}

// connected makes a reader of the fleet.
func connected(s *cli.Settings, cmd *cobra.Command) (overview.Reader, func(), error) {
	r, closed, err := s.Redis(cmd, timeout)
	return overview.Reader{Reader: r}, closed, err
}

// picture is the fleet at one moment, with the calls of the minute before.
type picture = overview.Live

const minute = 60 // seconds of calls

func readPicture(ctx context.Context, r overview.Reader) (picture, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return r.Live(ctx, minute)
}
