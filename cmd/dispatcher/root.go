package main

import (
	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/cmd/dispatcher/internal/configcmd"
	"dispatcher/cmd/dispatcher/internal/dlqcmd"
	"dispatcher/cmd/dispatcher/internal/enqueuecmd"
	"dispatcher/cmd/dispatcher/internal/limitcmd"
	"dispatcher/cmd/dispatcher/internal/rulecmd"
	"dispatcher/cmd/dispatcher/internal/statuscmd"
	"dispatcher/cmd/dispatcher/internal/whycmd"
)

// newRoot is the whole command line.
func newRoot(environ func() []string) *cobra.Command {
	return cli.NewRoot(environ, newRunCommand, newDemoCommand, newProviderCommand, newHealthCheckCommand, configcmd.New, enqueuecmd.New, statuscmd.New, statuscmd.NewForecast, limitcmd.New, whycmd.New,
		rulecmd.NewCancel, rulecmd.NewHold, rulecmd.NewRules, dlqcmd.New)
}
