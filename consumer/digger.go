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
			letters := make([]letter, len(some))
			for i, d := range some {
				letters[i] = *d.doom
			}
			if letters = a.g.c.results.before(letters); len(letters) > 0 {
				hub.dead.bury(a.ctx, letters)
			}
		}
	}
}
