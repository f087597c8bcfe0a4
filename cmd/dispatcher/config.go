package main

import (
	"github.com/spf13/cobra"
)

func newConfigCommand(s *settings) *cobra.Command {
	return group("config", "Check or show the settings", newConfigCheckCommand(s), newConfigShowCommand(s))
}
