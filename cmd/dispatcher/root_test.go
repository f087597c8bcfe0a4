package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// outcome is what a command line printed and how it ended.
type outcome struct {
	out, errOut string
	err         error
}

// dispatcher runs a command line with an environment and a standard input of
// its own.
func dispatcher(ctx context.Context, input string, environ []string, args ...string) outcome {
	var out, errOut bytes.Buffer
	root := newRoot(func() []string { return environ })
	root.SetArgs(args)
	root.SetIn(strings.NewReader(input))
	root.SetOut(&out)
	root.SetErr(&errOut)
	err := root.ExecuteContext(ctx)
	return outcome{out.String(), errOut.String(), err}
}

func (o outcome) mustFail(t *testing.T, want string) {
	t.Helper()
	if o.err == nil || !strings.Contains(o.err.Error(), want) {
		t.Errorf("got %v\nwant an error with %q", o.err, want)
	}
}

func (o outcome) mustPrint(t *testing.T, want ...string) {
	t.Helper()
	if o.err != nil {
		t.Fatal(o.err)
	}
	for _, w := range want {
		if !strings.Contains(o.out, w) {
			t.Errorf("got\n%s\nwant it to hold %q", o.out, w)
		}
	}
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An exit status of 0 says that what was asked for was done, so a slip of the
// pen must not end in a help page and success.
func TestWhatDoesNotExistIsAnError(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"rum"}, `unknown command "rum"`},
		{[]string{"limit"}, "dispatcher limit: name a subcommand: get, set, pause, resume"},
		{[]string{"limit", "gat", "x"}, `unknown command "gat"`},
		{[]string{"config"}, "name a subcommand: check, show"},
		{[]string{"config", "chek"}, `unknown command "chek"`},
		{[]string{"config", "check", "x"}, "unknown command"},
		{[]string{"limit", "get"}, "name the limit: dispatcher limit get NAME"},
		{[]string{"config", "check", "--jsno"}, "unknown flag"},
		{[]string{"-c", "/no/such/file", "config", "check"}, "read config: stat /no/such/file"},
	} {
		dispatcher(t.Context(), "", nil, row.args...).mustFail(t, row.want)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	dispatcher(t.Context(), "", nil, "--version").mustPrint(t, "dispatcher ", "go1.")
}
