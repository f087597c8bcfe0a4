package version

import (
	"runtime"
	"testing"
)

func TestAReleaseHasItsOwnVersion(t *testing.T) {
	if got := Text(); got == "" || got == " "+runtime.Version() {
		t.Errorf("got %q, want the build of the test named", got)
	}
	release = "v1.2.3"
	defer func() { release = "" }()
	if got, want := Text(), "v1.2.3 "+runtime.Version(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
