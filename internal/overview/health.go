package overview

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"dispatcher/internal/timetext"
	"dispatcher/throttle/phase"
)

// State names what holds the fleet's jobs up.
type State string

// The states, and what each means. The first one that is true is the fleet's.
const (
	Unknown  State = "unknown"   // no node said anything of late
	NotReady State = "not_ready" // no node can work
	Paused   State = "paused"    // by an operator
	Blocked  State = "blocked"   // the provider refuses calls, and asked for a rest
	Cooldown       = State(phase.Cooldown)
	Changing       = State(phase.Changing)
	Provider State = "provider" // the provider answers no node that has jobs
	Idle     State = "idle"     // nothing waits
	Slowed   State = "slowed"   // the first limit holds jobs up, at less than its cap: the provider refused calls
	Limited  State = "limited"  // the first limit holds jobs up
	Gated    State = "gated"    // another limit does; where that is paused, this comes before limited
	Held     State = "held"     // rules of the operators do
	Working  State = "working"  // nothing holds jobs up for long
)

// Health is what holds the fleet's jobs up, in one sentence.
type Health struct {
	State State  `json:"state"`
	Text  string `json:"text"`
	Limit string `json:"limit,omitempty"` // that holds jobs up
	Warn  bool   `json:"warn"`            // somebody should look
	Lacks string `json:"lacks,omitempty"` // which nodes are missing, not ready, or have jobs and get no answer of the provider; empty: none
}

// judge finds the fleet's state.
func (f *Fleet) judge() Health {
	h := f.holdUp()
	if h.Lacks = f.lacks(); h.Lacks != "" {
		h.Warn = true
	}
	return h
}

// holdUp is what holds jobs up.
func (f *Fleet) holdUp() Health {
	fresh := f.fresh()
	wait := jobsText(f.waiting())
	switch {
	case len(f.Nodes) == 0:
		return Health{State: Unknown, Warn: true, Text: "No node works: jobs wait in Kafka."}
	case len(fresh) == 0:
		return Health{State: Unknown, Warn: true, Text: fmt.Sprintf("Unknown: no node has said anything for %s.", f.silence())}
	case f.every(func(n *Figures) bool { return !n.Ready }):
		return Health{State: NotReady, Warn: true, Text: fmt.Sprintf("No node can work: %s %s.", faultOf(fresh[0]), wait)}
	case f.Limit.Settings.Paused:
		return Health{State: Paused, Warn: true, Limit: f.Limit.Name, Text: fmt.Sprintf("Paused%s, last change by %s: %s.", untilText(timetext.Exact(f.Limit.Settings.PauseEnds())), f.Limit.By, wait)}
	case f.Limit.Slowdown != nil && f.Limit.Slowdown.BlockedUntil != "":
		return Health{
			State: Blocked, Warn: true, Limit: f.Limit.Name,
			Text: fmt.Sprintf("The provider refuses calls until %s: %s.", timetext.StampExact(f.Limit.Slowdown.BlockedUntil), wait),
		}
	case f.in(phase.Cooldown), f.in(phase.Changing):
		return Health{State: State(fresh[0].Phase), Warn: true, Limit: f.Limit.Name, Text: fmt.Sprintf("%s; %s.", sentence(fresh[0].Note), wait)}
	case f.providerDown():
		return Health{State: Provider, Warn: true, Text: fmt.Sprintf("The provider does not answer: %s.", wait)}
	case f.waiting() == 0:
		return Health{State: Idle, Text: "No job waits."}
	case f.binds() && f.Limit.Slowdown != nil:
		return Health{
			State: Slowed, Limit: f.Limit.Name, Warn: true,
			Text: fmt.Sprintf("The provider refused calls, so the limit %s is lowered to %.4g: %s.", f.Limit.Name, f.Limit.Slowdown.EffectiveCap, wait),
		}
	}
	if paused := f.mostWaited(func(l *Limit) bool { return l.Paused != nil }); paused != nil {
		return Health{State: Gated, Warn: true, Limit: paused.Name, Text: fmt.Sprintf("The limit %s is paused%s, last change by %s: %s for it, %s in all.",
			paused.Name, untilText(paused.Paused.Until), paused.Paused.By, jobsText(float64(paused.Waiting)), wait)}
	}
	if f.binds() {
		return Health{State: Limited, Limit: f.Limit.Name, Text: fmt.Sprintf("The limit %s holds the jobs up, more nodes would not help: %s.", f.Limit.Name, wait)}
	}
	if gate := f.mostWaited(func(l *Limit) bool { return l.Binds >= Binding }); gate != nil {
		return Health{State: Gated, Limit: gate.Name, Text: fmt.Sprintf("The limit %s holds %.0f jobs up: %s in all.", gate.Name, float64(gate.Waiting), wait)}
	}
	if held := f.held(); held > 0 {
		return Health{State: Held, Text: fmt.Sprintf("Rules of operators hold %d jobs: %s in all. dispatcher rules list shows them.", held, wait)}
	}
	return Health{State: Working, Text: fmt.Sprintf("No limit holds the jobs up: %s.", wait)}
}

func (f *Fleet) every(is func(*Figures) bool) bool {
	return !f.some(func(n *Figures) bool { return !is(n) })
}

// in tells whether the limiters of all nodes are in a phase.
func (f *Fleet) in(p phase.Phase) bool {
	return f.every(func(n *Figures) bool { return n.Phase == string(p) })
}

// sentence begins a text with a capital.
func sentence(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

func (f *Fleet) some(is func(*Figures) bool) bool { return slices.ContainsFunc(f.fresh(), is) }

// providerDown tells whether some node has jobs, and the provider answers none that has. Nodes without jobs make no call, so their
// breakers say nothing new.
func (f *Fleet) providerDown() bool {
	return f.some(getsNoAnswer) && f.every(func(n *Figures) bool { return leftOf(n) == 0 || n.ProviderDown })
}

// getsNoAnswer tells whether the node has jobs and the provider does not answer it.
func getsNoAnswer(n *Figures) bool { return n.ProviderDown && leftOf(n) > 0 }

// leftOf are the jobs of the node that are not settled.
func leftOf(n *Figures) (jobs float64) {
	for _, l := range n.Lanes {
		jobs += left(l)
	}
	return jobs
}

// held are the jobs that rules hold.
func (f *Fleet) held() (jobs int) {
	for _, n := range f.fresh() {
		jobs += n.Held
	}
	return jobs
}

// mostWaited is the limit after the first that most jobs wait for, of those of which something is true; nil: jobs wait for none of them.
func (f *Fleet) mostWaited(is func(*Limit) bool) (most *Limit) {
	for i := 1; i < len(f.Limits); i++ {
		if l := &f.Limits[i]; l.Waiting > 0 && is(l) && (most == nil || l.Waiting > most.Waiting) {
			most = l
		}
	}
	return most
}

// silence is the age of the newest figures.
func (f *Fleet) silence() string {
	least := math.Inf(1)
	for _, n := range f.Nodes {
		if n.Figures != nil {
			least = min(least, n.AgeS)
		}
	}
	if math.IsInf(least, 1) {
		return "a minute"
	}
	return (time.Duration(least) * time.Second).String()
}

// lacks names the nodes that are missing, say nothing, can't work or get no answer of the provider.
func (f *Fleet) lacks() string {
	var all []string
	for _, n := range f.Nodes {
		switch {
		case n.Missing:
			all = append(all, fmt.Sprintf("%s was not seen for %.0f s", n.Name, n.SeenS))
		case n.Stale:
			all = append(all, n.Name+" says nothing of itself")
		case !n.Figures.Ready:
			all = append(all, n.Name+": "+faultOf(n.Figures))
		case getsNoAnswer(n.Figures):
			all = append(all, n.Name+": the provider does not answer it")
		}
	}
	return strings.Join(all, "; ")
}

// faultOf is the first check of a node that fails.
func faultOf(n *Figures) string {
	if c, fails := n.Fault(); fails {
		return c.Name + ": " + c.Error + ";"
	}
	return string(phase.Starting)
}

func jobsText(jobs float64) string {
	if jobs == 1 {
		return "1 job waits"
	}
	return fmt.Sprintf("%.0f jobs wait", jobs)
}

func untilText(at string) string {
	if at == "" {
		return " until somebody resumes it"
	}
	return " until " + timetext.StampExact(at)
}
