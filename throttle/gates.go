package throttle

import (
	"time"

	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/internal/slots"
	"dispatcher/throttle/limit"
)

// GateSpacing is the time between two units of one value of a gate's key, under the settings
// in force.
func (l *Limiter) GateSpacing(of Value, now time.Time) time.Duration { return l.gates.Spacing(of, now) }

// GateRevision is that of the settings in force of a gate. What was learned under another one
// may not hold any more.
func (l *Limiter) GateRevision(gate int) int64 { return l.gates.Settings(gate).Revision }

// Settings are those in force of a limit, by its number as for [Limiter.Binds].
func (l *Limiter) Settings(number int) limit.Settings {
	if number == 0 {
		return l.State().Settings
	}
	return *l.gates.Settings(number - 1)
}

// gatesOf is what a call says of gates, for these jobs and corrections.
func (r *reserver) gatesOf(asked []request, corrections []slots.Correction) script.Gates {
	a := r.gates.Ask(r.redisTime(time.Now()))
	for _, q := range asked {
		a.Job(q.Request)
	}
	for _, c := range corrections {
		a.Correct(c)
	}
	return a.Gates
}

// refuse tells jobs until when a gate refuses them.
func (r *reserver) refuse(asked []request, reply script.Reservation, now time.Time) {
	if reply.Choice == nil {
		return
	}
	for _, one := range reply.Choice.Refused {
		asked[one.Job].answer.Until, asked[one.Job].answer.Gate = now.Add(clock.Duration(one.At-reply.Now)), one.Gate
	}
}

// takeGates learns the settings of the gates in force, as [reserver.take] does for the first
// limit.
func (r *reserver) takeGates(reply script.Reservation) {
	if reply.Choice == nil {
		return
	}
	news, stricter := r.gates.Take(*reply.Choice, reply.Now, r.known.Terms)
	if stricter {
		r.giveUp()
	}
	r.pollNow = r.pollNow || news
}
