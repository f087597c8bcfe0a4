package cli

import (
	"fmt"
	"io"
	"strings"

	"dispatcher/internal/clip"
	"dispatcher/internal/limits"
	"dispatcher/internal/timetext"
	"dispatcher/throttle/limit"
)

const widestExpression = 60 // bytes of an expression in a table

// InCell makes an expression fit for a cell of a table.
func InCell(expression string) string {
	return clip.Shown(strings.Join(strings.Fields(expression), " "), widestExpression)
}

// Window is the window of a limit for people.
func Window(t limit.Terms) string {
	if t.Calendar != "" {
		return t.WindowText()
	}
	return "any " + timetext.Short(t.Window)
}

// Brief are the most important terms. The configuration says which jobs a gate counts.
func Brief(t limit.Terms, jobs limits.Counts) string {
	text := fmt.Sprintf("at most %d in %s", t.Cap, Window(t))
	switch {
	case !t.Gate:
		text += fmt.Sprintf(", burst %d", t.Burst)
	case jobs.Key != "":
		text += " for each value of " + InCell(jobs.Key)
	default:
		text += ", beside the first limit"
	}
	if t.Gate && jobs.When != "" {
		text += ", where " + InCell(jobs.When)
	}
	if t.Paused {
		text += ", paused"
	}
	return text
}

// Following is what follows an override, until the last one has ended.
func Following(s limit.Settings, jobs limits.Counts) string {
	spans := s.Spans()[1:]
	texts := make([]string, len(spans))
	for i, next := range spans {
		texts[i] = "then " + Brief(next.Terms, jobs)
		if !next.Until.IsZero() {
			texts[i] += "; until " + timetext.Stamp(next.Until)
		}
	}
	return strings.Join(texts, ", ")
}

// PrintWaste warns if the terms leave little of the cap, and names an algorithm that leaves
// more.
func PrintWaste(w io.Writer, share float64, terms limit.Terms, scope limit.Scope) {
	if share >= limit.FairShare {
		return
	}
	if terms.Gate {
		_, _ = fmt.Fprintf(w, "  warning\t%.0f %%\tof the cap is given up for good, by the largest job or the guard of the first limit\n", 100*(1-share))
		return
	}
	_, _ = fmt.Fprintf(w, "  warning\t%.0f %%\tof the cap is given up for good, by the algorithm, the burst, the largest job, the reserve or the guard\n", 100*(1-share))
	exact, _ := limit.AlgorithmNamed(limit.SlidingWindowLog)
	terms.Algorithm = exact.Name
	if terms.Burst = 1; scope != limit.ScopeNode && terms.Validate() == nil && exact.Share(terms.Contract) > share+0.01 {
		_, _ = fmt.Fprintf(w, "  \t\t%s would leave up to %.3f of it\n", exact.Name, exact.Share(terms.Contract))
	}
}
