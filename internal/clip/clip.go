// Package clip bounds text that comes from outside before it is written anywhere.
package clip

import (
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
