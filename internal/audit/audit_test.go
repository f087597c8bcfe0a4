package audit_test

import (
	"strings"
	"testing"

	"dispatcher/internal/audit"
)

func TestAReasonIsShortAndPlain(t *testing.T) {
	t.Parallel()
	const control = ": must have no control characters, such as a line break or an escape"
	for why, want := range map[string]string{
		"": "",
		"they asked for it, 50 % – \"März\" 🚀": "",
		strings.Repeat("ü", audit.MostWhy):     "",
		strings.Repeat("ü", audit.MostWhy+1):   "why: 201: must have at most 200 characters",
		"asked\x1b[2J":                         `why: "asked\x1b[2J"` + control,
		"asked\n9  2026-01-01  paused  root":   `why: "asked\n9  2026-01-01  paused  root"` + control,
		"asked\tann":                           `why: "asked\tann"` + control,
		"asked\u009b2J":                        `why: "asked\u009b2J"` + control,
	} {
		got := ""
		if err := audit.CheckWhy(why); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got the fault %q, want %q", why, got, want)
		}
	}
}
