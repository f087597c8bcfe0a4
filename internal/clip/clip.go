// Package clip bounds text that comes from outside before it is written anywhere.
package clip

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Text cuts text to so many bytes, at the edge of a rune. Bytes that are not UTF-8
// are replaced.
func Text(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// Shown is text for people: whole where it has at most so many bytes, else its beginning and an ellipsis.
func Shown(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return Text(text, most) + "…"
}

// Quoted makes text fit for an error: quoted, on one line, and cut as by [Shown].
func Quoted(text string, most int) string {
	if len(text) <= most {
		return strconv.Quote(text)
	}
	return strconv.Quote(Text(text, most)) + "…"
}
