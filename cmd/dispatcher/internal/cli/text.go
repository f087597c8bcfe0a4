package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
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

// PrintLine prints one line.
func PrintLine(w io.Writer, line string) error {
	_, err := fmt.Fprintln(w, line)
	return err
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
