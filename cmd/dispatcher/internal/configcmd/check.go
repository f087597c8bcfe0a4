package configcmd

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/configs"
	"dispatcher/internal/node"
	"dispatcher/internal/node/reach"
	"dispatcher/internal/setupcheck"
)

func newCheckCommand(s *cli.Settings) *cobra.Command {
	var asJSON, connect bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the settings, and show what the limit amounts to",
		Long: "Print every fault of the settings. If there is none, print what the limit amounts to: the time between\n" +
			"calls, the share of the cap that can be used, and how long a change takes to act. The files that the\n" +
			"settings name are read. Only --connect connects to servers. It also checks whether they fit the settings, and\n" +
			"proves on a shadow key that the limiter limits on this Redis.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, lacks, err := checked(s)
			var servers []reach.Server
			var findings []setupcheck.Finding
			if connect && err == nil {
				servers = reach.Servers(cmd.Context(), cfg)
				findings, err = node.CheckSetup(cmd.Context(), cfg, slog.New(slog.DiscardHandler))
				err = errors.Join(unreached(servers), err, faultsOf(findings))
			}
			if asJSON {
				report := newCheckReport(cfg, err)
				report.Servers, report.Setup, report.Lacks = newServerReports(servers), findings, lacks
				return errors.Join(err, cli.PrintJSON(cmd.OutOrStdout(), report))
			}
			if err != nil && servers == nil {
				return err
			}
			return errors.Join(printCheck(cmd.OutOrStdout(), cfg, connected{servers, findings}, lacks), err)
		},
	}
	cmd.Flags().BoolVar(&connect, "connect", false, "also connect to Kafka, Redis and the provider, and show their answers and what the set-up lacks; no job is sent")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, faults included")
	return cmd
}

// checked loads the settings as a node does. If the only faults are references of headers
// that lead nowhere, lacks lists them: their secrets are needed only in a run.
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

// connected is what --connect found out.
type connected struct {
	servers  []reach.Server
	findings []setupcheck.Finding
}

// faultsOf joins the findings with which nothing is sent, or a promise does not hold.
func faultsOf(findings []setupcheck.Finding) error {
	var faults []error
	for _, f := range findings {
		if f.Level == setupcheck.Fault {
			faults = append(faults, fmt.Errorf("config check: %s", f))
		}
	}
	return errors.Join(faults...)
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
