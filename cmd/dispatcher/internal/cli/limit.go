package cli

import (
	"fmt"
	"io"
	"strings"

	"dispatcher/internal/clip"
	"dispatcher/internal/timetext"
	"dispatcher/throttle/limit"
)

const widestExpression = 60 // bytes of an expression in a table

// InCell makes an expression fit for a cell of a table.
func InCell(expression string) string {
	line := strings.Join(strings.Fields(expression), " ")
	if len(line) > widestExpression {
		return clip.Text(line, widestExpression) + "…"
	}
	return line
}

// Window is the window of a limit for people.
func Window(t limit.Terms) string {
	if t.Calendar != "" {
		return t.WindowText()
	}
	return "any " + timetext.Short(t.Window)
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
