package configcmd

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/configs"
	"dispatcher/internal/timetext"
	"dispatcher/throttle"
	"dispatcher/throttle/limit"
)

// printConnected prints what each server answered, and what the set-up lacks.
func printConnected(w io.Writer, c connected) {
	for _, s := range c.servers {
		answer := s.Said
		if s.Err != nil {
			answer = "does not answer as it should: " + s.Err.Error()
		}
		_, _ = fmt.Fprintf(w, "%s %s: %s\n", s.Name, s.Address, answer)
	}
	for _, f := range c.findings {
		_, _ = fmt.Fprintf(w, "%s: %s\n", f.Level, f)
	}
}

func printCheck(w io.Writer, cfg configs.Config, found connected, lacks []string) error {
	table := cli.Table(w)
	printKafka(table, cfg.Kafka)
	for _, l := range cfg.Limits[:1] {
		c := l.Stated().Contract
		a, _ := limit.AlgorithmNamed(l.Algorithm) // checked before
		_, _ = fmt.Fprintf(table, "limit %s: at most %d in any %s, burst %d\n", l.Name, c.Cap, timetext.Short(c.Window), c.Burst)
		_, _ = fmt.Fprintf(table, "  algorithm\t%s\t%s\n", a.Name, a.Promise)
		if worst := a.Worst(c); worst != c.Cap {
			_, _ = fmt.Fprintf(table, "  worst window\t%d\tcalls, where the cap is %d\n", worst, c.Cap)
		}
		of := "over the whole fleet"
		if l.Scope == limit.ScopeNode {
			of = "of one node"
		}
		_, _ = fmt.Fprintf(table, "  spacing\t%s\tbetween two calls, %s\n", a.Spacing(c).Round(time.Microsecond), of)
		_, _ = fmt.Fprintf(table, "  usable share\t%.3f\tof the cap: %.1f calls a window while jobs wait\n", a.Share(c), held(a, c))
		printCost(table, c)
		cli.PrintWaste(table, a.Share(c), l.Stated().Terms, l.Scope)
		printGuard(table, l, a)
		printBucket(table, l)
		printRedis(table, l, a)
	}
	printGates(table, cfg)
	printDedup(table, cfg)
	printConnected(table, found)
	if len(lacks) > 0 {
		_, _ = fmt.Fprintln(table, "config ok, but a run would lack:\n  "+strings.Join(lacks, "\n  "))
		return table.Flush()
	}
	_, _ = fmt.Fprintln(table, "config ok")
	return table.Flush()
}

// printGates prints the limits after the first as a table.
func printGates(w io.Writer, cfg configs.Config) {
	gates := cfg.Gates()
	if len(gates) == 0 {
		return
	}
	_, _ = fmt.Fprintln(w, "limits beside it, which a job must pass as well:")
	_, _ = fmt.Fprintln(w, "  name\tkey\tat most\tspacing\tusable share\ta job counts\twhen")
	for _, g := range gates {
		spacing := "none"
		if t := g.Spec.Terms; !t.IsQuota() {
			spacing = t.GateSpacing().String()
		}
		_, _ = fmt.Fprintf(w, "  %s\t%s\t%d in %s\t%s\t%.3f\t%s\t%s\n", g.Name, cli.InCell(cmp.Or(g.Key, "all jobs")),
			g.Spec.Cap, strings.TrimPrefix(cli.Window(g.Spec.Terms), "any "), spacing, g.Spec.GateShare(), cli.InCell(cmp.Or(g.Cost, "its units")), cli.InCell(cmp.Or(g.When, "always")))
	}
	most := cfg.Limits[0].Stated().LargestCost()
	for _, g := range gates {
		if least := g.Spec.LargestCost(); g.Cost == "" && least < most {
			_, _ = fmt.Fprintf(w, "  warning: jobs of more than %d units become dead letters by the limit %s: state its cost, such as \"1\", or raise its max_cost\n", least, g.Name)
		}
	}
}

// printCost prints what the largest job counts, and how many calls may be in flight.
func printCost(w io.Writer, c limit.Contract) {
	if c.MaxInFlight > 0 {
		_, _ = fmt.Fprintf(w, "  in flight\t%d\tcalls at once, on all nodes together\n", c.MaxInFlight)
	}
	if c.LargestCost() > 1 {
		_, _ = fmt.Fprintf(w, "  largest job\t%d\tunits, as its header cost says\n", c.LargestCost())
	}
}

// printGuard prints the guard, and how far the fleet may raise it.
func printGuard(w io.Writer, l configs.Limit, a limit.Algorithm) {
	c := l.Stated().Contract
	most, raised := autoMost(l, a)
	switch {
	case !c.Auto:
		_, _ = fmt.Fprintf(w, "  guard\t%s\tlateness %s, the rest for delays on the network\n", timetext.Short(c.Guard), timetext.Short(c.Lateness))
	case !raised:
		_, _ = fmt.Fprintf(w, "  guard\tauto\tstays %s: lateness %s and spread %s; only a fleet with %s chooses another\n",
			timetext.Short(c.Guard), timetext.Short(c.Lateness), timetext.Short(c.Spread), namesAhead())
	default:
		_, _ = fmt.Fprintf(w, "  guard\tauto\tbegins at %s: lateness %s and spread %s; at %s at most, which leaves %.3f of the cap\n",
			timetext.Short(c.Guard), timetext.Short(c.Lateness), timetext.Short(c.Spread), timetext.Short(most.Guard), a.Share(most))
	}
}

// namesAhead names the algorithms that reserve ahead.
func namesAhead() string {
	var names []string
	for _, a := range limit.Algorithms() {
		if a.Ahead {
			names = append(names, a.Name)
		}
	}
	return strings.Join(names, " or ")
}

// autoMost is the limit with the longest lateness that the fleet may choose.
func autoMost(l configs.Limit, a limit.Algorithm) (c limit.Contract, raised bool) {
	c = l.Stated().Contract
	if !c.Auto || !a.Ahead || l.Scope == limit.ScopeNode {
		return c, false
	}
	return c.WithLateness(c.LongestLateness()), true
}

// printBucket prints the settings of a leaky bucket that differ from the defaults.
func printBucket(w io.Writer, l configs.Limit) {
	if l.Capacity > 0 {
		_, _ = fmt.Fprintf(w, "  capacity\t%d\tcalls that wait in the bucket, at most\n", l.Capacity)
	}
	if l.Refuses() {
		_, _ = fmt.Fprintf(w, "  when full\trefuse\tjobs go to the dead letters as limited\n")
	}
}

// printRedis prints who keeps the limit, and what happens while Redis is away.
func printRedis(w io.Writer, l configs.Limit, a limit.Algorithm) {
	c := l.Stated().Contract
	if l.Scope == limit.ScopeNode {
		_, _ = fmt.Fprintf(w, "  scope\tnode\teach node keeps the limit for itself; Redis is not asked\n")
		if l.WarmUp > 0 {
			_, _ = fmt.Fprintf(w, "  warm-up\t%s\tfrom a third of the rate to the whole\n", timetext.Short(l.WarmUp))
		}
		return
	}
	_, _ = fmt.Fprintf(w, "  reaction\t%s\tuntil a change holds for every call\n", c.Reaction())
	_, _ = fmt.Fprintf(w, "  standstill\t%s\twithout calls, after Redis lost its state\n", a.Standstill(c).Round(time.Millisecond))
	if l.Degraded == limit.DegradedReserve {
		_, _ = fmt.Fprintf(w, "  degraded\treserve\twhile Redis is away: %d units a window on each of at most %d nodes, for up to %s\n",
			c.UnitsOfNode(), c.MaxNodes, timetext.Short(throttle.LeaseLength))
	} else {
		_, _ = fmt.Fprintf(w, "  degraded\twait\twhile Redis is away nothing is sent\n")
	}
}

// held is the average number of calls in a window while jobs wait.
func held(a limit.Algorithm, c limit.Contract) float64 { return a.Share(c) * float64(c.Cap) }
