package consumer

// buryAll brings what an assignment has condemned to the dead letters and the
// tiers, until the assignment ends. It runs beside the fetchers, and one an
// assignment: a dead-letter topic that can't be written stops neither them nor
// the dead letters of other topics.
func (a *assignment) buryAll() {
	hub := a.g.c.hub
	for {
		select {
		case <-a.doom:
		case <-a.ctx.Done():
			return
		}
		for some := hub.doomed(a); len(some) > 0; some = hub.doomed(a) {
			a.buryThese(some)
		}
	}
}

// buryThese writes letters, those of jobs that have a result after it: what has
// none does not wait for others.
func (a *assignment) buryThese(some []*Delivery) {
	hub, results := a.g.c.hub, a.g.c.results
	var letters, after []letter
	for _, d := range some {
		if results.owes(d.doom) {
			after = append(after, *d.doom)
		} else {
			letters = append(letters, *d.doom)
		}
	}
	if len(letters) > 0 {
		hub.dead.bury(a.ctx, letters)
	}
	if after = results.before(a.ctx, after); len(after) > 0 {
		hub.dead.bury(a.ctx, after)
	}
}
