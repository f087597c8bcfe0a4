package overview

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// expiring are fetched jobs of a lane that expire close to each other. Their turns lie evenly behind from jobs of the fleet, and
// before to.
type expiring struct{ from, to, jobs, inS float64 }

// collectExpiring finds how many jobs of the fleet go before those that expire. It takes the entries out of the nodes' figures,
// which are shown. Jobs of the lanes before go first. Nodes get equal parts of the rate while their lanes have jobs, so before
// the n-th job of a node's lane each other node has settled n jobs of the lane, or all that it had.
func (f *Fleet) collectExpiring() {
	before := 0.0
	for _, lane := range f.Lanes {
		waiting := f.waitingIn(lane.Name)
		ahead := func(n int) (jobs float64) {
			for _, w := range waiting {
				jobs += min(float64(n), w)
			}
			return before + jobs
		}
		for _, n := range f.Nodes {
			if n.Figures == nil {
				continue
			}
			for i := range n.Figures.Lanes {
				l := &n.Figures.Lanes[i]
				if l.Name != lane.Name {
					continue
				}
				for _, e := range l.Expires {
					if !n.Stale {
						f.expires = append(f.expires, expiring{ahead(e.Ahead), ahead(e.Ahead + e.Among), float64(e.Jobs), e.InS})
					}
				}
				l.Expires = nil
			}
		}
		before += float64(lane.Waiting)
	}
	slices.SortStableFunc(f.expires, func(a, b expiring) int { return cmp.Compare(a.from, b.from) })
}

// waitingIn are the jobs of a lane that wait on each node.
func (f *Fleet) waitingIn(lane string) (jobs []float64) {
	for _, n := range f.fresh() {
		for _, l := range n.Lanes {
			if l.Name == lane {
				jobs = append(jobs, float64(max(l.Waiting, int64(l.Fetched))))
			}
		}
	}
	return jobs
}

// expiring is how many fetched jobs expire before their turn, where so many jobs are settled in a second. A job that expires takes
// no turn, so those behind it move up.
func (f *Fleet) expiring(perS float64) (gone float64) {
	for _, e := range f.expires {
		reached := perS*e.inS + gone // jobs of the fleet, before these expire
		late := (e.to - reached) / (e.to - e.from)
		if e.inS <= 0 || math.IsNaN(late) {
			late = 1
		}
		gone += e.jobs * min(1, max(0, late))
	}
	return gone
}

// ExpireText says how many jobs expire before their turn, and of how many that is not known; empty: no job waits.
func (c Forecast) ExpireText() string {
	others := max(0, c.Jobs-c.Fetched)
	switch {
	case c.Jobs == 0:
		return ""
	case c.Fetched == 0:
		return fmt.Sprintf("not known of %.0f jobs: none of them waits for its turn on a node", others)
	}
	text := fmt.Sprintf("%.0f of %.0f jobs that nodes have fetched, before their turn", c.Expire, c.Fetched)
	if others > 0 {
		text += fmt.Sprintf("; not known of %.0f others", others)
	}
	return text
}

// fetched are the jobs of all lanes that wait for their turn in memory.
func (f *Fleet) fetched() (jobs float64) {
	for _, l := range f.Lanes {
		jobs += float64(l.Fetched)
	}
	return jobs
}
