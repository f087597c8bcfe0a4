package cli

import (
	"testing"
	"unicode"
)

// No text can act on a terminal.
func FuzzPlainly(f *testing.F) {
	f.Add("a\x1b[2Jb\xff\u202e", 3)
	f.Fuzz(func(t *testing.T, text string, most int) {
		for _, r := range Plainly(text, most) {
			if !unicode.IsPrint(r) {
				t.Errorf("%q is shown with %q", text, r)
			}
		}
	})
}
