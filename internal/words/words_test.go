package main

import (
	"strings"
	"testing"
)

func TestRetiredWordsAreFound(t *testing.T) {
	t.Parallel()
	words, err := parse([]byte(`
- {retired: 'ledgers?', now: offset tracker, allowed: [{path: CHANGELOG.md, text: "was ledger", why: what it was called}]}
- {retired: told, now: notified, in: [lua/]}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, line string
		want       int
	}{
		{"a.go", "func keptLedger() {}", 1},
		{"a.go", "dispatcher_ledger_total", 1},
		{"a.go", "// The ledgers of a node.", 1},
		{"a.go", "sledge", 0},
		{"a.go", "// is told", 0},
		{"lua/a.lua", "-- is told", 1},
		{"CHANGELOG.md", "dedup.enabled was ledger.enabled", 0},
		{"CHANGELOG.md", "the ledger", 1},
	} {
		var out strings.Builder
		got, err := check(&out, c.path, strings.NewReader(c.line+"\n"), words)
		if err != nil || got != c.want {
			t.Errorf("%s: %q: got %d lines and %v, want %d; output %q", c.path, c.line, got, err, c.want, out.String())
		}
	}
}

func TestTheListIsSound(t *testing.T) {
	t.Parallel()
	words, err := parse(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range words {
		for _, p := range w.Allowed {
			if p.Path == "" || p.Why == "" {
				t.Errorf("%q: got a place without path or reason: %+v", w.Retired, p)
			}
		}
	}
}

func TestAListThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"- {retired: a}", "- {retired: '(', now: b}", "- {word: a, now: b}"} {
		if _, err := parse([]byte(text)); err == nil {
			t.Errorf("%s: got no error", text)
		}
	}
}
