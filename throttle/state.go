package throttle

import (
	"errors"
	"fmt"
	"time"
)

// Phase is what a limiter is about.
type Phase string

// The phases of a limiter.
const (
	PhaseStarting Phase = "starting" // Redis has not answered yet
	PhaseRunning  Phase = "running"  // slots are booked as they are wanted
	PhaseFenced   Phase = "fenced"   // the timeline was lost; what may be out has to pass first
	PhasePaused   Phase = "paused"   // by an operator
	PhaseAway     Phase = "away"     // Redis doesn't answer; jobs wait
	PhaseReserve  Phase = "reserve"  // Redis doesn't answer; the node lives on its share of the reserve
	PhaseTooSlow  Phase = "too_slow" // Redis answers too slowly to map its clock within the lateness
	PhaseRefused  Phase = "refused"  // Redis answers with an error that time won't heal
	phaseNone     Phase = ""         // no phase
)

// State is what a limiter is about right now.
type State struct {
	Phase    Phase
	Settings Settings      // the newest that this node knows
	Width    time.Duration // how uncertain Redis's clock is to this node
	Since    time.Time     // of the phase
	Until    time.Time     // of a fence, or of the lease of a share in the phase reserve; else zero
	Err      error         // what Redis answered, in the phases away, reserve and refused
	Fenced   bool          // false: this Redis can't tell a failover, and one would go unseen
}

// State returns a snapshot.
func (l *Limiter) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// Ready is nil while slots can be had, or an operator wants none: what a
// readiness check is to show. On the reserve a node is not ready: it works, but a
// rollout that went on would end processes that hold shares.
func (s State) Ready() error {
	switch s.Phase {
	case PhaseRunning, PhaseFenced, PhasePaused:
		return nil
	case PhaseTooSlow:
		return fmt.Errorf("redis answers too slowly: its clock is known to %s only, and the lateness is %s; raise them with limit set --lateness --guard, or bring Redis nearer",
			s.Width.Round(time.Microsecond), s.Settings.Lateness)
	case PhaseStarting:
		if s.Err == nil {
			return errors.New("redis has not answered yet")
		}
	case PhaseReserve:
		return fmt.Errorf("redis is away; the node makes %d calls in %s out of the reserve until %s: %w",
			s.Settings.ShareOfNode(), s.Settings.sharePeriod(), s.Until.Format(time.TimeOnly), s.Err)
	case PhaseAway, PhaseRefused, phaseNone:
	}
	return fmt.Errorf("limiter is %s: %w", s.Phase, s.Err)
}

// Note says, beside [State.Ready], why nothing is sent although the node is
// ready; empty: slots can be had. It is for people, and shown in /readyz.
func (s State) Note() string {
	switch s.Phase {
	case PhasePaused:
		by := s.Settings.By
		if s.Settings.Why != "" {
			by += " (" + s.Settings.Why + ")"
		}
		if s.Settings.Until.IsZero() {
			return fmt.Sprintf("paused by %s until somebody resumes it: dispatcher limit resume", by)
		}
		return fmt.Sprintf("paused by %s until %s", by, s.Settings.Until.UTC().Format(time.RFC3339))
	case PhaseFenced:
		return fmt.Sprintf("cooldown until %s: nothing is sent until all slots that may be out are over", s.Until.UTC().Format(time.RFC3339))
	case PhaseStarting, PhaseRunning, PhaseAway, PhaseReserve, PhaseTooSlow, PhaseRefused, phaseNone:
	}
	return ""
}

// enter moves to a phase and says so once.
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
		l.log.Warn("redis can't be asked; the node lives on its share of the reserve", "until", until, "error", err)
	case PhaseTooSlow:
		l.log.Warn("limiter stands still: redis answers too slowly to map its clock", "clock_width", width)
	case PhaseStarting, PhaseRunning, PhaseFenced, PhasePaused, phaseNone:
		l.log.Info("limiter changed phase", "phase", phase, "was", old)
	}
}

// learn takes in the settings in force; first: Redis's answer is the first one.
func (l *Limiter) learn(s Settings, first bool) {
	l.mu.Lock()
	old := l.state.Settings
	l.state.Settings = s
	l.mu.Unlock()
	l.metrics.settings(s)
	l.spacing.Store(int64(s.Spacing()))
	if first && (s.stated() != old.stated() || s.Algorithm != old.Algorithm) {
		l.log.Warn("redis holds other settings than the file; redis counts; limit set changes them",
			"redis", s.Contract, "redis_algorithm", s.Algorithm, "file", old.Contract, "file_algorithm", old.Algorithm)
	}
	l.log.Info("limit settings in force", "revision", s.Revision, "by", s.By, "paused", s.Paused, "algorithm", s.Algorithm, "contract", s.Contract)
}
