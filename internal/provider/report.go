package provider

import "time"

// Report is a verdict, with the stalls and whether the provider is up.
type Report struct {
	Verdict
	Kept         bool          `json:"kept"`
	HeldUp       float64       `json:"held_up"` // share of the windows that overlap a stall: how busy the machine was, also where all are judged
	Stalls       int           `json:"stalls"`
	LongestStall time.Duration `json:"longest_stall_ns"` // including the guard that is added to each
	Up           bool          `json:"up"`
}

// Report judges the arrivals since the last Reset.
func (p *Provider) Report(c Contract) Report {
	arrivals, stalls := p.Arrivals(), p.Stalls()
	r := Report{Verdict: Judge(arrivals, p.unsure(), c), Stalls: len(stalls), Up: p.IsUp()}
	r.Kept, r.HeldUp = r.Verdict.Kept(), unjudged(merged(stalls), c.Window, r.First, r.Last)
	for _, s := range stalls {
		r.LongestStall = max(r.LongestStall, s.To-s.From)
	}
	return r
}
