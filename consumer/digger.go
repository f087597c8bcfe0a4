package consumer

import "dispatcher/job"

// buryAll brings an assignment's records that are no job to the dead letters,
// until the assignment ends. It runs beside the fetchers, and one an
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
				letters[i] = letter{d, Failure{Class: classOf(d.bad), Message: d.bad.Error()}}
			}
			hub.dead.bury(a.ctx, letters)
		}
	}
}

func classOf(err *job.Error) Class {
	if err.Reason == job.ReasonUnsupported {
		return ClassUnsupported
	}
	return ClassDecode
}
