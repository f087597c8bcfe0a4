package configcmd

import (
	"cmp"

	"dispatcher/configs"
	"dispatcher/internal/node/reach"
	"dispatcher/internal/setupcheck"
	"dispatcher/throttle"
	"dispatcher/throttle/limit"
)

type checkReport struct {
	OK     bool          `json:"ok"`
	Faults []string      `json:"faults,omitempty"`
	Lacks  []string      `json:"lacks,omitempty"` // secrets of the provider that are missing
	Limits []limitReport `json:"limits,omitempty"`
	Gates  []gateReport  `json:"gates,omitempty"` // the limits after the first

	Servers []serverReport       `json:"servers,omitempty"` // with --connect
	Setup   []setupcheck.Finding `json:"setup,omitempty"`   // with --connect: what the set-up lacks
}

// serverReport is the answer of a server.
type serverReport struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Answer  string `json:"answer,omitempty"`
	Error   string `json:"error,omitempty"`
}

func newServerReports(servers []reach.Server) []serverReport {
	var reports []serverReport
	for _, s := range servers {
		r := serverReport{Name: s.Name, Address: s.Address, Answer: s.Said}
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
	MaxCost        int64   `json:"max_cost"`
	MaxInFlight    int64   `json:"max_in_flight"` // 0: no bound
	Capacity       int64   `json:"capacity"`      // of a leaky bucket; 0: what the horizon holds
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
	LeaseS         float64 `json:"lease_s"` // of a share
}

type gateReport struct {
	Name     string  `json:"name"`
	Key      string  `json:"key,omitempty"`  // absent: all jobs count together
	When     string  `json:"when,omitempty"` // absent: every job counts
	Cost     string  `json:"cost,omitempty"` // absent: a job counts as on the first limit
	Cap      int64   `json:"cap"`
	WindowS  float64 `json:"window_s"` // of a calendar quota the longest that there is
	Calendar string  `json:"calendar,omitempty"`
	Zone     string  `json:"zone,omitempty"`
	MaxCost  int64   `json:"max_cost"`
	SpacingS float64 `json:"spacing_s"` // 0: a quota keeps none
	Share    float64 `json:"share"`
}

func newCheckReport(cfg configs.Config, err error) checkReport {
	if err != nil {
		return checkReport{Faults: faultLines(err)}
	}
	report := checkReport{OK: true}
	for _, l := range cfg.Limits[:1] {
		c := l.Stated().Contract
		a, _ := limit.AlgorithmNamed(l.Algorithm) // checked before
		most, _ := autoMost(l, a)
		report.Limits = append(report.Limits, limitReport{
			Name: l.Name, Algorithm: a.Name, Worst: a.Worst(c), Cap: c.Cap, WindowS: c.Window.Seconds(), Burst: c.Burst, MaxCost: c.LargestCost(), MaxInFlight: c.MaxInFlight,
			Capacity: l.Capacity, WhenFull: string(cmp.Or(l.WhenFull, limit.FullWait)),
			SpacingS: a.Spacing(c).Seconds(), Share: a.Share(c), GuardAuto: c.Auto, GuardS: c.Guard.Seconds(), LeastShare: a.Share(most), CallsPerWindow: held(a, c),
			ReactionS: c.Reaction().Seconds(), StandstillS: a.Standstill(c).Seconds(),
			Scope: string(cmp.Or(l.Scope, limit.ScopeCluster)), WarmUpS: l.WarmUp.Seconds(),
			Degraded: string(cmp.Or(l.Degraded, limit.DegradedWait)), UnitsOfNode: c.UnitsOfNode(), MaxNodes: c.MaxNodes,
			LeaseS: throttle.LeaseLength.Seconds(),
		})
	}
	for _, g := range cfg.Gates() {
		c := g.Spec.Contract
		report.Gates = append(report.Gates, gateReport{
			Name: g.Name, Key: g.Key, When: g.When, Cost: g.Cost, Cap: c.Cap, WindowS: c.Window.Seconds(), MaxCost: c.LargestCost(),
			SpacingS: g.Spec.GateSpacing().Seconds(), Share: g.Spec.GateShare(), Calendar: g.Spec.Calendar, Zone: g.Spec.Zone,
		})
	}
	return report
}
