package clip_test

import (
	"testing"

	"dispatcher/internal/clip"
)

func TestALongTextEndsBetweenLettersWithAnEllipsis(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ text, shown, quoted string }{
		{"abcd", "abcd", `"abcd"`},
		{"abcde", "abcd…", `"abcd"…`},
		{"abcéd", "abc…", `"abc"…`},
		{"a\nbcde", "a\nbc…", `"a\nbc"…`},
	} {
		if got := clip.Shown(row.text, 4); got != row.shown {
			t.Errorf("shown: got %q, want %q", got, row.shown)
		}
		if got := clip.Quoted(row.text, 4); got != row.quoted {
			t.Errorf("quoted: got %s, want %s", got, row.quoted)
		}
	}
}
