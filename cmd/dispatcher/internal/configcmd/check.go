package configcmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/configs"
	"dispatcher/internal/node"
	"dispatcher/internal/node/reach"
)

func newCheckCommand(s *cli.Settings) *cobra.Command {
	var asJSON, connect bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the settings, and show what the limit amounts to",
		Long: "Print every fault of the settings. If there is none, print what the limit amounts to: the time between\n" +
			"calls, the share of the cap that can be used, and how long a change takes to act. The files that the\n" +
			"settings name are read. Only --connect connects to servers.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, lacks, err := checked(s)
			var servers []reach.Server
			if connect && err == nil {
				servers = reach.Servers(cmd.Context(), cfg)
				err = unreached(servers)
			}
			if asJSON {
				report := newCheckReport(cfg, err)
				report.Servers, report.Lacks = newServerReports(servers), lacks
				return errors.Join(err, cli.PrintJSON(cmd.OutOrStdout(), report))
			}
			if err != nil && servers == nil {
				return err
			}
			return errors.Join(printCheck(cmd.OutOrStdout(), cfg, servers, lacks), err)
		},
	}
	cmd.Flags().BoolVar(&connect, "connect", false, "also connect to Kafka, Redis and the provider, and show their answers; no job is sent")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, faults included")
	return cmd
}

// checked loads the settings as a node does. If only secrets of the provider are
// missing, which only a run needs, lacks lists them.
func checked(s *cli.Settings) (cfg configs.Config, lacks []string, err error) {
	cfg, err = s.Load(node.Check)
	if err == nil {
		return cfg, nil, nil
	}
	without, fault := s.Manage(node.Check)
	if fault != nil {
		return cfg, nil, err
	}
	return without, faultLines(err), nil
}

// faultLines splits the error of load into its faults.
func faultLines(err error) []string {
	return strings.Split(strings.TrimPrefix(err.Error(), "config:\n"), "\n")
}

// unreached joins the errors of the servers that did not answer.
func unreached(servers []reach.Server) error {
	var faults []error
	for _, s := range servers {
		if s.Err != nil {
			faults = append(faults, fmt.Errorf("config check: %s at %s: %w", s.Name, s.Address, s.Err))
		}
	}
	return errors.Join(faults...)
}
