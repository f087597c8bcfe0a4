package phase

import (
	"errors"
	"fmt"
	"time"

	"dispatcher/throttle/internal/slots"
	"dispatcher/throttle/limit"
)

// Phase is the present activity of a limiter.
type Phase string

// The phases of a limiter.
const (
	Starting Phase = "starting" // Redis has not answered yet
	Running  Phase = "running"  // slots are reserved as they are wanted
	Cooldown Phase = "cooldown" // the timeline was lost; all slots that may be out have to pass first
	Changing Phase = "changing" // the settings were changed; units of those before have to pass first
	Paused   Phase = "paused"   // by an operator
	Blocked  Phase = "blocked"  // the provider refuses calls and asked for a rest
	Away     Phase = "away"     // Redis doesn't answer; jobs wait
	Reserve  Phase = "reserve"  // Redis doesn't answer; the node sends by its lease of the reserve
	TooSlow  Phase = "too_slow" // Redis answers too slowly to map its clock within the lateness
	Refused  Phase = "refused"  // Redis answers with an error that time won't heal
)

// Names are those of all phases, in the order of their declaration.
func Names() []string {
	var names []string
	for _, p := range []Phase{
		Starting, Running, Cooldown, Changing, Paused, Blocked, Away, Reserve, TooSlow, Refused,
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

// Ready is nil while slots can be had, or an operator wants none: the answer of a
// readiness check. On the reserve a node is not ready: it works, but a rollout that
// went on would end processes that hold leases.
func (s State) Ready() error {
	switch s.Phase {
	case Running, Cooldown, Changing, Paused, Blocked:
		return nil
	case TooSlow:
		remedy := "raise them with limit set --lateness --guard"
		if longest := s.Settings.LongestLateness(); s.Settings.ChoosesLateness() && slots.LeastLate(s.Width) < longest {
			remedy = fmt.Sprintf("where no node can send, the fleet raises it within 15 s, to %s at most", longest)
		}
		return fmt.Errorf("redis answers too slowly: its clock is known to %s only, and the lateness is %s; %s, or bring Redis nearer",
			s.Width.Round(time.Microsecond), s.Settings.Lateness, remedy)
	case Starting:
		if s.Err == nil {
			return errors.New("redis has not answered yet")
		}
	case Reserve:
		return fmt.Errorf("redis is away; the node uses %d units in %s out of the reserve until %s: %w",
			s.Settings.UnitsOfNode(), s.Settings.ReservePeriod(), s.Until.Format(time.TimeOnly), s.Err)
	case Away, Refused:
	}
	return fmt.Errorf("limiter is %s: %w", s.Phase, s.Err)
}

// Note says, beside [State.Ready], why nothing is sent although the node is
// ready; empty: slots can be had. It is for people, and shown in /readyz.
func (s State) Note() string {
	switch s.Phase {
	case Paused:
		return PauseNote(s.Settings)
	case Cooldown:
		return fmt.Sprintf("cooldown until %s: nothing is sent until all slots that may be out are over", s.Until.UTC().Format(time.RFC3339))
	case Changing:
		return fmt.Sprintf("new settings begin at %s, last change by %s: nothing is sent until units of those before are over; dispatcher limit undo goes back",
			s.Until.UTC().Format(time.RFC3339), s.Settings.By)
	case Blocked:
		return fmt.Sprintf("blocked until %s: %s; dispatcher limit release ends the block", s.Until.UTC().Format(time.RFC3339), s.Slowdown.Why)
	case Running:
		if s.Slowdown.Share(s.Settings.Contract) < 1 {
			return fmt.Sprintf("slowed to %.4g of %d in %s: %s", s.Slowdown.UnitsIn(s.Settings.Contract), s.Settings.Cap, s.Settings.Window, s.Slowdown.Why)
		}
	case Starting, Away, Reserve, TooSlow, Refused:
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
