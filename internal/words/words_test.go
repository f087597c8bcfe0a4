package main

import (
	"os"
	"regexp"
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

// What a newcomer reads first stays short: whoever adds a sentence takes another one out.
func TestTheFirstDocumentsStayShort(t *testing.T) {
	t.Parallel()
	lines, terms := regexp.MustCompile(`\n`), regexp.MustCompile(`\*\*[a-z -]+\*\*`)
	for _, c := range []struct {
		path, of string
		counted  *regexp.Regexp
		most     int
	}{
		{path: "README.md", of: "lines", counted: lines, most: 150},
		{path: "docs/design.md", of: "lines", counted: lines, most: 300},
		{path: "docs/glossary.md", of: "terms", counted: terms, most: 25},
	} {
		text, err := os.ReadFile("../../" + c.path)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(c.counted.FindAll(text, -1)); got > c.most || got < c.most/2 {
			t.Errorf("%s: got %d %s, want %d at most and half as many at least", c.path, got, c.of, c.most)
		}
	}
}
