package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Table aligns the columns of what is written to it, once it is flushed.
func Table(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// PrintJSON prints a value as one line of JSON.
func PrintJSON(w io.Writer, v any) error {
	return json.NewEncoder(w).Encode(v)
}

// Merged is one JSON object with the fields of several.
type Merged []any

// MarshalJSON writes the fields of all parts. Each name is to be in one of them only.
func (m Merged) MarshalJSON() ([]byte, error) {
	all := map[string]json.RawMessage{}
	for _, part := range m {
		text, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &all); err != nil {
			return nil, err
		}
	}
	return json.Marshal(all)
}

// PrintLine prints one line.
func PrintLine(w io.Writer, line string) error {
	_, err := fmt.Fprintln(w, line)
	return err
}

// Short writes a duration without the zeros that Go adds: 1m0s is 1m.
func Short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Quoted writes a value for people: in quotes if it is empty, or more than one word.
func Quoted(value string) string {
	if value == "" || strings.ContainsFunc(value, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-.", r)
	}) {
		return strconv.Quote(value)
	}
	return value
}

// Exact writes a time for programs; the zero time is empty.
func Exact(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00")
}

// Stamp writes a time for people; the zero time is empty.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// Plainly shows text from elsewhere so that it can't act on a terminal or break
// a table. It shows at most so many runes; 0: all.
func Plainly(text string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; most > 0 && n > most {
			b.WriteString("…")
			break
		}
		switch {
		case r == utf8.RuneError || !unicode.IsPrint(r):
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// TextOrHex shows text as it is, and all other bytes in hexadecimal.
func TextOrHex(raw []byte, most int) string {
	if utf8.Valid(raw) {
		return Plainly(string(raw), most)
	}
	rest := ""
	if most > 0 && len(raw) > most/2 {
		raw, rest = raw[:most/2], "…"
	}
	return fmt.Sprintf("0x%x%s", raw, rest)
}

// IsTerminal tells whether a stream of the process is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) //nolint:gosec // a descriptor is a small number
}
