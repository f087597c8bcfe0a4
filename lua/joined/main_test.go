package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dispatcher/throttle/limit"
)

// Each part of a script is in a file that is written, and a script of an earlier run is not.
func TestEachPartIsWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stale := filepath.Join(dir, "reserve_removed.lua")
	if err := os.WriteFile(stale, []byte("return"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{dir}); err != nil {
		t.Fatal(err)
	}
	written, err := filepath.Glob(filepath.Join(dir, "*.lua"))
	if want := 10 + len(limit.Algorithms()); err != nil || len(written) != want {
		t.Errorf("got %d files, want %d (%v)", len(written), want, err)
	}
	var all strings.Builder
	for _, path := range written {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for _, pattern := range []string{"../*.lua", "../algorithms/*.lua", "../reserve/*.lua"} {
		parts, err := filepath.Glob(pattern)
		if err != nil || len(parts) == 0 {
			t.Fatalf("%s: no parts (%v)", pattern, err)
		}
		for _, path := range parts {
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(all.String(), string(text)) {
				t.Errorf("%s is in no script that was written (%v)", path, err)
			}
		}
	}
}

func TestADirectoryIsRequired(t *testing.T) {
	t.Parallel()
	if run(nil) == nil {
		t.Error("got no error without a directory")
	}
}
