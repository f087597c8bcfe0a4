package throttle

import (
	"errors"
	"fmt"
	"time"

	"dispatcher/throttle/limit"
)

// Phase is the present activity of a limiter.
type Phase string

// The phases of a limiter.
const (
	PhaseStarting Phase = "starting" // Redis has not answered yet
	PhaseRunning  Phase = "running"  // slots are reserved as they are wanted
	PhaseCooldown Phase = "cooldown" // the timeline was lost; all slots that may be out have to pass first
	PhaseChanging Phase = "changing" // the settings were changed; units of those before have to pass first
	PhasePaused   Phase = "paused"   // by an operator
	PhaseBlocked  Phase = "blocked"  // the provider refuses calls and asked for a rest
	PhaseAway     Phase = "away"     // Redis doesn't answer; jobs wait
	PhaseReserve  Phase = "reserve"  // Redis doesn't answer; the node sends by its lease of the reserve
	PhaseTooSlow  Phase = "too_slow" // Redis answers too slowly to map its clock within the lateness
	PhaseRefused  Phase = "refused"  // Redis answers with an error that time won't heal
)

// phases are the names of all phases, in the order of their declaration.
func phases() []string {
	var names []string
	for _, p := range []Phase{
		PhaseStarting, PhaseRunning, PhaseCooldown, PhaseChanging, PhasePaused, PhaseBlocked, PhaseAway, PhaseReserve, PhaseTooSlow, PhaseRefused,
	} {
		names = append(names, string(p))
	}
	return names
}

// State is a limiter's state at one moment.
type State struct {
	Phase    Phase
	Settings limit.Settings // the newest that this node knows
	Slowdown limit.Slowdown // what the provider's answers leave of the limit
	Width    time.Duration  // how uncertain Redis's clock is to this node
	Since    time.Time      // of the phase
	Until    time.Time      // the end of a cooldown, of a change, of a block, or of the lease in the phase reserve; else zero
	Err      error          // Redis's answer, in the phases away, reserve and refused
}

// State returns a snapshot.
func (l *Limiter) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// Ready is nil while slots can be had, or an operator wants none: the answer of a
// readiness check. On the reserve a node is not ready: it works, but a rollout that
// went on would end processes that hold leases.
func (s State) Ready() error {
	switch s.Phase {
	case PhaseRunning, PhaseCooldown, PhaseChanging, PhasePaused, PhaseBlocked:
		return nil
	case PhaseTooSlow:
		remedy := "raise them with limit set --lateness --guard"
		if longest := s.Settings.LongestLateness(); s.Settings.ChoosesLateness() && leastLate(s.Width) < longest {
			remedy = fmt.Sprintf("where no node can send, the fleet raises it within 15 s, to %s at most", longest)
		}
		return fmt.Errorf("redis answers too slowly: its clock is known to %s only, and the lateness is %s; %s, or bring Redis nearer",
			s.Width.Round(time.Microsecond), s.Settings.Lateness, remedy)
	case PhaseStarting:
		if s.Err == nil {
			return errors.New("redis has not answered yet")
		}
	case PhaseReserve:
		return fmt.Errorf("redis is away; the node uses %d units in %s out of the reserve until %s: %w",
			s.Settings.UnitsOfNode(), s.Settings.ReservePeriod(), s.Until.Format(time.TimeOnly), s.Err)
	case PhaseAway, PhaseRefused:
	}
	return fmt.Errorf("limiter is %s: %w", s.Phase, s.Err)
}

// Note says, beside [State.Ready], why nothing is sent although the node is
// ready; empty: slots can be had. It is for people, and shown in /readyz.
func (s State) Note() string {
	switch s.Phase {
	case PhasePaused:
		return PauseNote(s.Settings)
	case PhaseCooldown:
		return fmt.Sprintf("cooldown until %s: nothing is sent until all slots that may be out are over", s.Until.UTC().Format(time.RFC3339))
	case PhaseChanging:
		return fmt.Sprintf("new settings begin at %s, last change by %s: nothing is sent until units of those before are over; dispatcher limit undo goes back",
			s.Until.UTC().Format(time.RFC3339), s.Settings.By)
	case PhaseBlocked:
		return fmt.Sprintf("blocked until %s: %s; dispatcher limit release ends the block", s.Until.UTC().Format(time.RFC3339), s.Slowdown.Why)
	case PhaseRunning:
		if s.Slowdown.Share(s.Settings.Contract) < 1 {
			return fmt.Sprintf("slowed to %.4g of %d in %s: %s", s.Slowdown.UnitsIn(s.Settings.Contract), s.Settings.Cap, s.Settings.Window, s.Slowdown.Why)
		}
	case PhaseStarting, PhaseAway, PhaseReserve, PhaseTooSlow, PhaseRefused:
	}
	return ""
}

// PauseNote says until when a limit with these settings is paused, and who changed it last: the settings don't say who paused it.
func PauseNote(s limit.Settings) string {
	by := s.By
	if s.Why != "" {
		by += " (" + s.Why + ")"
	}
	until := "somebody resumes it (dispatcher limit resume)"
	if ends := s.PauseEnds(); !ends.IsZero() {
		until = ends.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("paused until %s; last change by %s", until, by)
}

// enter moves to a phase and logs that once.
func (l *Limiter) enter(phase Phase, until time.Time, err error, width time.Duration) {
	l.mu.Lock()
	old := l.state.Phase
	if old != phase {
		l.state.Since = time.Now()
	}
	l.state.Phase, l.state.Until, l.state.Err, l.state.Width = phase, until, err, width
	l.mu.Unlock()
	if old == phase {
		return
	}
	switch phase {
	case PhaseAway, PhaseRefused:
		l.log.Warn("limiter stands still: redis can't be asked", "phase", phase, "error", err)
	case PhaseReserve:
		l.log.Warn("redis can't be asked; the node sends by its lease of the reserve", "until", until, "error", err)
	case PhaseTooSlow:
		l.log.Warn("limiter stands still: redis answers too slowly to map its clock", "clock_width", width)
	case PhaseChanging:
		l.log.Warn("the settings were changed: nothing is sent until units of those before are over", "until", until, "remedy", "limit undo "+l.opts.Name+" goes back")
	case PhaseBlocked:
		l.log.Warn("the provider refuses calls: none is made for as long as it asks, a minute at most", "until", until, "remedy", "limit release "+l.opts.Name+" ends it")
	case PhaseStarting, PhaseRunning, PhaseCooldown, PhasePaused:
		l.log.Info("limiter changed phase", "from", old, "to", phase)
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
	if first && (s.Stated() != old.Stated() || s.Algorithm != old.Algorithm) {
		l.log.Warn("redis holds other settings than the file; those in redis hold; limit set changes them",
			"redis", s.Contract, "redis_algorithm", s.Algorithm, "file", old.Contract, "file_algorithm", old.Algorithm)
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
