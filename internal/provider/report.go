package provider

// Report is a verdict, with whether the provider is up.
type Report struct {
	Verdict
	Kept bool `json:"kept"`
	Up   bool `json:"up"`
}

// Report judges the arrivals since the last Reset.
func (p *Provider) Report(c Contract) Report {
	v := Judge(p.Arrivals(), p.watch.all(), c)
	return Report{Verdict: v, Kept: v.Kept(), Up: p.IsUp()}
}
