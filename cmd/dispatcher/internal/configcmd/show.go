package configcmd

import (
	"strings"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/configs"
)

func newShowCommand(s *cli.Settings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the settings in effect as YAML, with secrets redacted",
		Long: "Print the settings in effect: the defaults, with the file, the environment and --set over them.\n" +
			"References such as ${env:NAME} are shown as they were written, secrets as [redacted].",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			src := s.Source
			src.OnlyShown = true
			cfg, err := configs.Load(src)
			if err != nil {
				return err
			}
			render := cfg.YAML
			if asJSON {
				render = cfg.JSON
			}
			out, err := render()
			if err != nil {
				return err
			}
			return cli.PrintLine(cmd.OutOrStdout(), strings.TrimSuffix(string(out), "\n"))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
