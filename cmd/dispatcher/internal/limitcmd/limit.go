package limitcmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/internal/limits"
	"dispatcher/internal/node"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// limitTimeout bounds a command: an operator who changes a rate must soon see that it
// failed. A wait for the nodes has the same time again.
const limitTimeout = 5 * time.Second

// New is the command.
func New(s *cli.Settings) *cobra.Command {
	var asJSON bool
	g := cli.Group("limit", "Show or change a limit of the running fleet",
		newGetCommand(s, &asJSON),
		newSetCommand(s, &asJSON),
		newUnsetCommand(s, &asJSON),
		newPauseCommand(s, &asJSON, "pause", "Stop all calls under the limit", true),
		newPauseCommand(s, &asJSON, "resume", "End a pause", false),
		newReleaseCommand(s, &asJSON),
		newUndoCommand(s, &asJSON),
		newHistoryCommand(s, &asJSON),
		newListCommand(s, &asJSON),
		newDeleteCommand(s, &asJSON),
	)
	g.Long = "Show or change a limit of the running fleet. The limit is kept in Redis: a change acts on every node\n" +
		"within half a second, and survives restarts. The file only seeds a limit that Redis does not know."
	g.PersistentFlags().BoolVar(&asJSON, "json", false, "print JSON")
	return g
}

// limitConn is the connection of a limit command.
type limitConn struct {
	limits.Reader

	control *control.Control // of the named limit; nil: no limit is named
	name    string
	value   *limit.Hash // the value of its key that the command is about; nil: none
}

// connected loads the configuration, connects, and runs a command, perhaps about one value of
// the limit's key.
func connected(s *cli.Settings, cmd *cobra.Command, name string, of *limit.Hash, do func(context.Context, limitConn) error) error {
	cfg, err := s.Manage(nil)
	if err != nil {
		return err
	}
	for _, l := range cfg.Limits {
		if l.Name == name && l.Scope == limit.ScopeNode {
			return fmt.Errorf("limit %q is kept by each node for itself (scope: node) and is not in Redis: change the file, and restart the nodes", name)
		}
	}
	if err := hasKey(cfg, name); of != nil && err != nil {
		return flagged(err)
	}
	log, _ := cli.Logger(cfg, cmd.ErrOrStderr())
	rdb, err := node.RedisClient(cfg, log, limitTimeout)
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }() // nothing is under way that its error could concern
	conn := limitConn{Reader: limits.NewReader(cfg, rdb), name: name, value: of}
	if name != "" {
		if conn.control, err = conn.Control(name); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), limitTimeout)
	defer cancel()
	return flagged(do(ctx, conn))
}

// flagged names the flag of a refused value.
func flagged(err error) error { return cli.Flagged(err, "; nothing was changed") }
