package configs

import (
	"os"
	"path/filepath"
	"testing"
)

// Whatever the file holds, Load must not panic; what it accepts and Validate
// passes must come back the same after it was shown and read again.
func FuzzLoad(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, "default.yaml", "sms.yaml", "llm.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, "kafka.workers=3")
	}
	f.Add([]byte("a: &a [*a]"), "limits.0.cap=1")
	f.Add([]byte("kafka: {1: 2}"), "sender.http.headers.x=${env:A}")
	f.Fuzz(func(t *testing.T, file []byte, set string) {
		r := readOver(file, Source{Set: []string{set}})
		c := r.config
		if wrong := c.faultsBeside(r.unread()); len(r.faults) > 0 || len(wrong) > 0 {
			return
		}
		shown, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again := readOver(shown, Source{})
		if len(c.written) > 0 {
			return // references and escapes are shown as written, and may lead nowhere here
		}
		if len(again.faults) > 0 {
			t.Fatalf("what was shown can't be read: %v\n%s", again.faults, shown)
		}
		shownAgain, err := again.config.YAML()
		if err != nil || string(shownAgain) != string(shown) {
			t.Fatalf("got %s (%v)\nwant %s", shownAgain, err, shown)
		}
	})
}
