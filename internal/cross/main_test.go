package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A call that one system lacks is found for that system alone.
func TestASystemThatLacksACallIsFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module m\n\ngo 1.26\n",
		"main.go": "package main\n\nimport \"syscall\"\n\nfunc main() { _ = syscall.Kill(1, 0) }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := check(dir, ".", "darwin/arm64"); err != nil {
		t.Errorf("darwin: %v", err)
	}
	if err := check(dir, ".", "windows/amd64"); err == nil || !strings.Contains(err.Error(), "windows/amd64: ") || !strings.Contains(err.Error(), "undefined: syscall.Kill") {
		t.Errorf("windows: got %v, want the call named", err)
	}
	for want, args := range map[string][]string{
		"name a package and the systems": {"."},
		`"linux" is not GOOS/GOARCH`:     {".", "linux"},
	} {
		if err := run(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", args, err, want)
		}
	}
}
