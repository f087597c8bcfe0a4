package configs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dispatcher/configs"
)

// Each file in testdata is named for its fault and says in its first lines what
// the error must hold ("# want:", one line a fault) and must not ("# never:").
func TestEveryFaultIsNamed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 20 {
		t.Fatalf("got %d files (%v), want the collection of faults", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want, never := expectations(string(text))
			if len(want) == 0 {
				t.Fatal("the file does not say what it wants")
			}
			got := faultsOf(configs.Source{File: file})
			if len(got) != len(want) {
				t.Errorf("got %d faults, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
			}
			all := strings.Join(got, "\n")
			for _, w := range want {
				if !strings.Contains(all, w) {
					t.Errorf("got\n%s\nwant it to hold\n%s", all, w)
				}
			}
			for _, n := range never {
				if strings.Contains(all, n) {
					t.Errorf("got\n%s\nwhich shows the secret", all)
				}
			}
		})
	}
}

// faultsOf is all that loading or, where that works, validating complains about.
func faultsOf(src configs.Source) []string {
	c, err := configs.Load(src)
	if err == nil {
		err = c.Validate()
	}
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

func expectations(text string) (want, never []string) {
	for line := range strings.Lines(text) {
		if w, ok := strings.CutPrefix(line, "# want: "); ok {
			want = append(want, strings.TrimSpace(w))
		}
		if n, ok := strings.CutPrefix(line, "# never: "); ok {
			never = append(never, strings.TrimSpace(n))
		}
	}
	return want, never
}

// With .dlq behind it, a topic has the 249 characters that Kafka takes.
func TestLongestTopic(t *testing.T) {
	t.Parallel()
	for length, bad := range map[int]bool{245: false, 246: true} {
		c := load(t, configs.Source{Set: []string{"kafka.topics=" + strings.Repeat("t", length)}})
		if err := c.Validate(); (err != nil) != bad {
			t.Errorf("%d characters: got %v, want an error: %t", length, err, bad)
		}
	}
}
