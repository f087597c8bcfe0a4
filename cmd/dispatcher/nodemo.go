//go:build nodemo

package main

import (
	"errors"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
)

var errNoDemo = errors.New("demo: this build has none, since it would bring a Kafka and a Redis of its own: run the released binary, " +
	"or go run ./cmd/dispatcher demo; deploy/compose.yaml starts a fleet with real servers")

// newDemoCommand stands for the demo in the image.
func newDemoCommand(*cli.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "demo", Short: "Says where the demo is: this build has none", Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error { return errNoDemo },
	}
}
