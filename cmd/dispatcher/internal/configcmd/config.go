package configcmd

import (
	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
)

// New is the command.
func New(s *cli.Settings) *cobra.Command {
	return cli.Group("config", "Check or show the settings", newCheckCommand(s), newShowCommand(s))
}
