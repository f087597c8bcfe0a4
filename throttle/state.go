package throttle

import (
	"time"

	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
	"dispatcher/throttle/phase"
)

// State returns a snapshot.
func (l *Limiter) State() phase.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// enter moves to a phase and logs that once.
func (l *Limiter) enter(to phase.Phase, until time.Time, err error, width time.Duration) {
	l.mu.Lock()
	old := l.state.Phase
	if old != to {
		l.state.Since = time.Now()
	}
	l.state.Phase, l.state.Until, l.state.Err, l.state.Width = to, until, err, width
	l.mu.Unlock()
	if old == to {
		return
	}
	switch to {
	case phase.Away, phase.Refused:
		l.log.Warn("limiter stands still: redis can't be asked", "phase", to, "error", err)
	case phase.Reserve:
		l.log.Warn("redis can't be asked; the node sends by its lease of the reserve", "until", until, "error", err)
	case phase.TooSlow:
		l.log.Warn("limiter stands still: redis answers too slowly to map its clock", "clock_width", width)
	case phase.Changing:
		l.log.Warn("the settings were changed: nothing is sent until units of those before are over", "until", until, "remedy", "limit undo "+l.opts.Name+" goes back")
	case phase.Blocked:
		l.log.Warn("the provider refuses calls: none is made for as long as it asks, a minute at most", "until", until, "remedy", "limit release "+l.opts.Name+" ends it")
	case phase.Starting, phase.Running, phase.Cooldown, phase.Paused:
		l.log.Info("limiter changed phase", "from", old, "to", to)
	}
}

// learn stores the settings in force; first: Redis's answer is the first one.
func (l *Limiter) learn(s limit.Settings, first bool) {
	l.mu.Lock()
	old := l.state.Settings
	l.state.Settings = s
	l.mu.Unlock()
	l.metrics.Settings(s)
	l.noteSpacing()
	l.bounded.Store(s.MaxInFlight > 0)
	if first {
		parameters.WarnOfFile(l.log, old, s)
	}
	if l.opts.Learned != nil {
		l.opts.Learned(s)
	}
	l.log.Info("limit settings in force", "revision", s.Revision, "by", s.By, "paused", s.Paused, "algorithm", s.Algorithm, "contract", s.Contract)
}

// noteSlowdown shows what is left of the limit, and has callers plan with it.
func (l *Limiter) noteSlowdown(slow limit.Slowdown) {
	l.mu.Lock()
	l.state.Slowdown = slow
	l.mu.Unlock()
	l.noteSpacing()
}

// noteSpacing stores the time between two slots.
func (l *Limiter) noteSpacing() {
	s := l.State()
	l.spacing.Store(int64(float64(s.Settings.Spacing()) / s.Slowdown.Share(s.Settings.Contract)))
	l.metrics.Slowdown(s.Settings.Contract, s.Slowdown)
}
