package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"dispatcher/configs"
	"dispatcher/internal/node"
	"dispatcher/throttle"
	"dispatcher/throttle/limit"
)

func newConfigCommand(s *settings) *cobra.Command {
	return group("config", "Check or show the settings", newConfigCheckCommand(s), newConfigShowCommand(s))
}

func newConfigShowCommand(s *settings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the settings in effect as YAML, with secrets redacted",
		Long: "Print the settings in effect: the defaults, with the file, the environment and --set over them.\n" +
			"References such as ${env:NAME} are shown as they were written, secrets as [redacted].",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := s.read(toShow)
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
			return printLine(cmd.OutOrStdout(), strings.TrimSuffix(string(out), "\n"))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newConfigCheckCommand(s *settings) *cobra.Command {
	var asJSON, connect bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say whether the settings are good, and what the contract comes to",
		Long: "Say everything that is wrong with the settings, or what the contract comes to: how far apart\n" +
			"calls are, how much of the cap can be used, and how long a change takes to hold.\n" +
			"Files that the settings name are read; nothing is connected to, but with --connect.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, lacks, err := s.check()
			var servers []node.Reached
			if connect && err == nil {
				servers = node.Reach(cmd.Context(), cfg)
				err = unreached(servers)
			}
			if asJSON {
				report := newCheckReport(cfg, err)
				report.Servers, report.Lacks = newServerReports(servers), lacks
				return errors.Join(err, printJSON(cmd.OutOrStdout(), report))
			}
			if err != nil && servers == nil {
				return err
			}
			return errors.Join(printCheck(cmd.OutOrStdout(), cfg, servers, lacks), err)
		},
	}
	cmd.Flags().BoolVar(&connect, "connect", false, "connect to Kafka, Redis and the provider as well, and say what each answers; no job is sent")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, also of what is wrong")
	return cmd
}

// check loads the settings as a node does. Where nothing but secrets of the provider
// is missing, lacks says which: only a run needs them.
func (s *settings) check() (cfg configs.Config, lacks []string, err error) {
	cfg, err = s.load(toSend, node.Check)
	if err == nil {
		return cfg, nil, nil
	}
	without, fault := s.load(toManage, node.Check)
	if fault != nil {
		return cfg, nil, err
	}
	return without, faultLines(err), nil
}

// faultLines takes what load says apart.
func faultLines(err error) []string {
	return strings.Split(strings.TrimPrefix(err.Error(), "config:\n"), "\n")
}

// unreached joins why servers did not answer.
func unreached(servers []node.Reached) error {
	var faults []error
	for _, s := range servers {
		if s.Err != nil {
			faults = append(faults, fmt.Errorf("config check: %s at %s: %w", s.Name, s.Address, s.Err))
		}
	}
	return errors.Join(faults...)
}

func printServers(w io.Writer, servers []node.Reached) {
	for _, s := range servers {
		said := s.Said
		if s.Err != nil {
			said = "does not answer as it should: " + s.Err.Error()
		}
		_, _ = fmt.Fprintf(w, "%s %s: %s\n", s.Name, s.Address, said)
	}
}

func printCheck(w io.Writer, cfg configs.Config, servers []node.Reached, lacks []string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	printKafka(table, cfg.Kafka)
	for _, l := range cfg.Limits {
		c := l.Stated().Contract
		a, err := limit.AlgorithmNamed(l.Algorithm)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(table, "limit %s: at most %d in any %s, burst %d\n", l.Name, c.Cap, short(c.Window), c.Burst)
		_, _ = fmt.Fprintf(table, "  algorithm\t%s\t%s\n", a.Name, a.Promise)
		if worst := a.Worst(c); worst != c.Cap {
			_, _ = fmt.Fprintf(table, "  worst window\t%d\tcalls, where the cap is %d\n", worst, c.Cap)
		}
		of := "over the whole fleet"
		if l.Scope == limit.ScopeNode {
			of = "of one node"
		}
		_, _ = fmt.Fprintf(table, "  spacing\t%s\tbetween two calls, %s\n", c.Spacing().Round(time.Microsecond), of)
		_, _ = fmt.Fprintf(table, "  usable share\t%.3f\tof the cap: %.1f calls a window while jobs wait\n", a.Share(c), held(a, c))
		printWaste(table, a.Share(c))
		printGuard(table, l, a)
		printBucket(table, l)
		printRedis(table, l, a)
	}
	printDedup(table, cfg)
	printServers(table, servers)
	if len(lacks) > 0 {
		_, _ = fmt.Fprintln(table, "config ok, but a run would lack:\n  "+strings.Join(lacks, "\n  "))
		return table.Flush()
	}
	_, _ = fmt.Fprintln(table, "config ok")
	return table.Flush()
}

// printWaste warns of terms that leave little of the cap.
func printWaste(w io.Writer, share float64) {
	if share < limit.FairShare {
		_, _ = fmt.Fprintf(w, "  warning\t%.0f %%\tof the cap is given up for good, by the burst, the reserve or the guard\n", 100*(1-share))
	}
}

// printGuard says what the guard is, and how far the fleet may raise it.
func printGuard(w io.Writer, l configs.Limit, a limit.Algorithm) {
	c := l.Stated().Contract
	most, raised := autoMost(l, a)
	switch {
	case !c.Auto:
		_, _ = fmt.Fprintf(w, "  guard\t%s\tlateness %s, the rest for the way to the provider\n", short(c.Guard), short(c.Lateness))
	case !raised:
		_, _ = fmt.Fprintf(w, "  guard\tauto\tstays %s: %s and spread %s; only a fleet with token_bucket or leaky_bucket chooses another\n",
			short(c.Guard), "lateness "+short(c.Lateness), short(c.Spread))
	default:
		_, _ = fmt.Fprintf(w, "  guard\tauto\tbegins at %s: lateness %s and spread %s; at %s at most, which leaves %.3f of the cap\n",
			short(c.Guard), short(c.Lateness), short(c.Spread), short(most.Guard), a.Share(most))
	}
}

// autoMost is the limit with the longest lateness that the fleet may choose.
func autoMost(l configs.Limit, a limit.Algorithm) (c limit.Contract, raised bool) {
	c = l.Stated().Contract
	if !c.Auto || !a.Ahead || l.Scope == limit.ScopeNode {
		return c, false
	}
	return c.WithLateness(c.LongestLateness()), true
}

// printBucket says what a leaky bucket holds, where the file says so.
func printBucket(w io.Writer, l configs.Limit) {
	if l.Capacity > 0 {
		_, _ = fmt.Fprintf(w, "  capacity\t%d\tcalls that wait in the bucket, at most\n", l.Capacity)
	}
	if l.Refuses() {
		_, _ = fmt.Fprintf(w, "  when full\trefuse\tjobs go to the dead letters as limited\n")
	}
}

// printRedis says what the limit has of Redis, and what holds while that is away.
func printRedis(w io.Writer, l configs.Limit, a limit.Algorithm) {
	c := l.Stated().Contract
	if l.Scope == limit.ScopeNode {
		_, _ = fmt.Fprintf(w, "  scope\tnode\teach node keeps the limit for itself; Redis is not asked\n")
		if l.WarmUp > 0 {
			_, _ = fmt.Fprintf(w, "  warm-up\t%s\tfrom a third of the rate to the whole\n", short(l.WarmUp))
		}
		return
	}
	_, _ = fmt.Fprintf(w, "  reaction\t%s\tuntil a change holds for every call\n", c.Reaction())
	_, _ = fmt.Fprintf(w, "  standstill\t%s\tafter Redis lost its state\n", a.Standstill(c).Round(time.Millisecond))
	if l.Degraded == limit.DegradedReserve {
		_, _ = fmt.Fprintf(w, "  degraded\treserve\twhile Redis is away: %d units a window on each of at most %d nodes, for up to %s\n",
			c.UnitsOfNode(), c.MaxNodes, short(throttle.LeaseLength))
	} else {
		_, _ = fmt.Fprintf(w, "  degraded\twait\twhile Redis is away nothing is sent\n")
	}
}

// held is how many calls a window holds on average while jobs wait.
func held(a limit.Algorithm, c limit.Contract) float64 { return a.Share(c) * float64(c.Cap) }

type checkReport struct {
	OK     bool          `json:"ok"`
	Faults []string      `json:"faults,omitempty"`
	Lacks  []string      `json:"lacks,omitempty"` // secrets that a run needs
	Limits []limitReport `json:"limits,omitempty"`

	Servers []serverReport `json:"servers,omitempty"` // with --connect
}

// serverReport is what a server said.
type serverReport struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Said    string `json:"said,omitempty"`
	Error   string `json:"error,omitempty"`
}

func newServerReports(servers []node.Reached) []serverReport {
	var reports []serverReport
	for _, s := range servers {
		r := serverReport{Name: s.Name, Address: s.Address, Said: s.Said}
		if s.Err != nil {
			r.Error = s.Err.Error()
		}
		reports = append(reports, r)
	}
	return reports
}

type limitReport struct {
	Name           string  `json:"name"`
	Algorithm      string  `json:"algorithm"`
	Worst          int64   `json:"worst_window"`
	Cap            int64   `json:"cap"`
	WindowS        float64 `json:"window_s"`
	Burst          int64   `json:"burst"`
	Capacity       int64   `json:"capacity"` // of a leaky bucket; 0: what the horizon holds
	WhenFull       string  `json:"when_full"`
	SpacingS       float64 `json:"spacing_s"`
	Share          float64 `json:"share"`
	GuardAuto      bool    `json:"guard_auto"`
	GuardS         float64 `json:"guard_s"`     // to begin with
	LeastShare     float64 `json:"least_share"` // with the longest guard that the fleet may choose
	CallsPerWindow float64 `json:"calls_per_window"`
	ReactionS      float64 `json:"reaction_s"`
	StandstillS    float64 `json:"standstill_s"`
	Scope          string  `json:"scope"`
	WarmUpS        float64 `json:"warm_up_s"`
	Degraded       string  `json:"degraded"`
	UnitsOfNode    int64   `json:"units_of_node"` // units a window while Redis is away
	MaxNodes       int64   `json:"max_nodes"`
	LeaseS         float64 `json:"lease_s"`
}

func newCheckReport(cfg configs.Config, err error) checkReport {
	if err != nil {
		return checkReport{Faults: faultLines(err)}
	}
	report := checkReport{OK: true}
	for _, l := range cfg.Limits {
		c := l.Stated().Contract
		a, _ := limit.AlgorithmNamed(l.Algorithm) // checked before
		most, _ := autoMost(l, a)
		report.Limits = append(report.Limits, limitReport{
			Name: l.Name, Algorithm: a.Name, Worst: a.Worst(c), Cap: c.Cap, WindowS: c.Window.Seconds(), Burst: c.Burst,
			Capacity: l.Capacity, WhenFull: string(cmp.Or(l.WhenFull, limit.FullWait)),
			SpacingS: c.Spacing().Seconds(), Share: a.Share(c), GuardAuto: c.Auto, GuardS: c.Guard.Seconds(), LeastShare: a.Share(most), CallsPerWindow: held(a, c),
			ReactionS: c.Reaction().Seconds(), StandstillS: a.Standstill(c).Seconds(),
			Scope: string(cmp.Or(l.Scope, limit.ScopeCluster)), WarmUpS: l.WarmUp.Seconds(),
			Degraded: string(cmp.Or(l.Degraded, limit.DegradedWait)), UnitsOfNode: c.UnitsOfNode(), MaxNodes: c.MaxNodes,
			LeaseS: throttle.LeaseLength.Seconds(),
		})
	}
	return report
}

func printJSON(w io.Writer, v any) error {
	return json.NewEncoder(w).Encode(v)
}

func printLine(w io.Writer, line string) error {
	_, err := fmt.Fprintln(w, line)
	return err
}

// short is a duration without the zeros that Go adds: 1m0s is 1m.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
