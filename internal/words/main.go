// Command words finds retired words: terms that this project once used in a sense of its
// own, and for which words.yaml names the term of the field.
//
// It reads the tracked text files, splits identifiers into their words (keptLedger is "kept
// ledger"), and prints each line that holds a retired word outside of the places where
// words.yaml allows it. It exits with 1 if there is one.
package main

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed words.yaml
var list []byte

// word is one entry of words.yaml.
type word struct {
	Retired string   `yaml:"retired"` // a regular expression over words in lower case
	Now     string   `yaml:"now"`     // the term to use
	In      []string `yaml:"in"`      // files or folders it is retired in; empty: everywhere
	Allowed []place  `yaml:"allowed"`

	pattern *regexp.Regexp
}

// place is where a retired word may stand.
type place struct {
	Path string `yaml:"path"` // with which the path begins
	Text string `yaml:"text"` // in lines that hold this; empty: in all lines
	Why  string `yaml:"why"`
}

// isRead tells whether a file is checked: code, scripts and documents, but not those that
// name what was renamed.
func isRead(path string) bool {
	if path == "CHANGELOG.md" || strings.HasPrefix(path, "internal/words/") {
		return false
	}
	read := []string{".go", ".lua", ".md", ".yaml", ".yml", "Makefile", ".ci/run"}
	return slices.ContainsFunc(read, func(end string) bool { return strings.HasSuffix(path, end) })
}

func main() {
	found, err := run(os.Stdout)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(2)
	}
	if found > 0 {
		_, _ = fmt.Fprintf(os.Stderr, "words: %d lines hold a retired word; internal/words/words.yaml names the term to use\n", found)
		os.Exit(1)
	}
}

func run(out io.Writer) (found int, err error) {
	words, err := parse(list)
	if err != nil {
		return 0, err
	}
	tracked, err := exec.Command("git", "ls-files").Output() //nolint:noctx // ends by itself
	if err != nil {
		return 0, fmt.Errorf("git ls-files: %w", err)
	}
	for path := range strings.Lines(string(tracked)) {
		path = strings.TrimSpace(path)
		if !isRead(path) {
			continue
		}
		file, err := os.Open(path)
		if err != nil {
			return found, err
		}
		n, err := check(out, path, file, words)
		if err := file.Close(); err != nil {
			return found, err
		}
		if found += n; err != nil {
			return found, fmt.Errorf("%s: %w", path, err)
		}
	}
	return found, nil
}

// parse reads the list.
func parse(text []byte) ([]word, error) {
	var words []word
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	d.KnownFields(true)
	if err := d.Decode(&words); err != nil {
		return nil, fmt.Errorf("words.yaml: %w", err)
	}
	for i := range words {
		w := &words[i]
		pattern, err := regexp.Compile(`\b(?:` + w.Retired + `)\b`)
		if err != nil || w.Now == "" {
			return nil, fmt.Errorf("words.yaml: %q: needs a pattern and a term to use: %w", w.Retired, err)
		}
		w.pattern = pattern
	}
	return words, nil
}

// check prints the lines of a file that hold a retired word, and counts them.
func check(out io.Writer, path string, text io.Reader, words []word) (found int, err error) {
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		plain := split(lines.Text())
		for _, w := range words {
			hit := w.pattern.FindString(plain)
			if hit == "" || !w.retiredIn(path) || w.allowedAt(path, lines.Text()) {
				continue
			}
			found++
			_, _ = fmt.Fprintf(out, "%s:%d: %q is now %s: %s\n", path, n, hit, w.Now, strings.TrimSpace(lines.Text()))
		}
	}
	return found, lines.Err()
}

func (w *word) retiredIn(path string) bool {
	return len(w.In) == 0 || slices.ContainsFunc(w.In, func(in string) bool { return strings.HasPrefix(path, in) })
}

func (w *word) allowedAt(path, line string) bool {
	return slices.ContainsFunc(w.Allowed, func(p place) bool {
		return strings.HasPrefix(path, p.Path) && strings.Contains(line, p.Text)
	})
}

var (
	camel     = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	separator = regexp.MustCompile(`[_\-\s]+`)
)

// split writes a line as words in lower case, identifiers taken apart.
func split(line string) string {
	line = camel.ReplaceAllString(line, "$1 $2")
	return strings.ToLower(separator.ReplaceAllString(line, " "))
}
