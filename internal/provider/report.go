package provider

import "time"

// Report is a verdict, with the stalls and whether the provider is up.
type Report struct {
	Verdict
	Kept         bool          `json:"kept"`
	Stalls       int           `json:"stalls"`
	LongestStall time.Duration `json:"longest_stall_ns"` // including the guard that is added to each
	Up           bool          `json:"up"`
}

// Report judges the arrivals since the last Reset.
func (p *Provider) Report(c Contract) Report {
	stalls := p.Stalls()
	r := Report{Verdict: Judge(p.Arrivals(), stalls, c), Stalls: len(stalls), Up: p.IsUp()}
	r.Kept = r.Verdict.Kept()
	for _, s := range stalls {
		r.LongestStall = max(r.LongestStall, s.To-s.From)
	}
	return r
}
