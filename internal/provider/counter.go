package provider

import (
	"slices"
	"time"
)

// Counts are what a provider that runs for long says of its calls since the start.
type Counts struct {
	Calls  int `json:"calls"`
	Units  int `json:"units"`  // what they count together: see [Arrival.Units]
	Failed int `json:"failed"` // calls that got another status than 2xx, or no answer

	MaxInWindow int     `json:"max_in_window"` // units, in any judged window
	OverCount   int     `json:"over_count"`    // broken windows that differ in what they hold
	Unjudged    float64 `json:"unjudged"`      // share of the windows that overlap a stall
}

// Counter judges the arrivals of a provider piece by piece. The provider forgets what was judged, so it can run for
// days. A counter belongs to one goroutine, and a provider has one counter at most.
type Counter struct {
	p        *Provider
	contract Contract
	counts   Counts // OverCount: of the windows that begin before from

	seen     int           // arrivals in the provider's log that were counted
	from     time.Duration // windows that begin before it were judged
	unjudged time.Duration // in which windows began that could not be judged
}

// late is how long after its first byte a call is recorded at most. A later one is judged without its neighbours.
const late = time.Second

// NewCounter makes a counter of the calls since the provider's start. The caps of the contract do not change: it has one.
func NewCounter(p *Provider, c Contract) *Counter { return &Counter{p: p, contract: c} }

// Count judges what has arrived since the last call of Count. It takes time in proportion to the arrivals of the time
// since, and of one window.
func (c *Counter) Count() Counts {
	next := max(c.from, time.Since(c.p.epoch)-c.contract.Window-late)
	arrivals, stalls := c.p.Arrivals(), c.p.unsure()
	for _, a := range arrivals[c.seen:] {
		c.counts.Calls++
		c.counts.Units += a.Units()
		if a.Status < 200 || a.Status > 299 {
			c.counts.Failed++
		}
	}
	all, open := Judge(after(arrivals, c.from), stalls, c.contract), Judge(after(arrivals, next), stalls, c.contract)
	c.counts.MaxInWindow = max(c.counts.MaxInWindow, all.MaxInWindow)
	c.counts.OverCount += all.OverCount - open.OverCount // an open window is judged again
	c.unjudged += time.Duration(unjudged(merged(stalls), c.contract.Window, c.from, next) * float64(next-c.from))
	c.from = next
	c.seen = len(arrivals) - c.p.log.forget(next)
	c.p.watch.forget(next)

	counts := c.counts
	counts.OverCount += open.OverCount
	if next > 0 {
		counts.Unjudged = float64(c.unjudged) / float64(next)
	}
	return counts
}

// after are the arrivals from a time on.
func after(arrivals []Arrival, from time.Duration) []Arrival {
	return slices.DeleteFunc(slices.Clone(arrivals), func(a Arrival) bool { return a.At < from })
}
