package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module writes a module of one law into a temporary directory, and a file of
// mutations.
func module(t *testing.T, mutations string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module m\n\ngo 1.24\n",
		"m.go":      "package m\n\nimport _ \"embed\"\n\n//go:embed law.lua\nvar Law string\n\nfunc Double(n int) int { return 2 * n }\n",
		"law.lua":   "return 1\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestDouble(t *testing.T) {\n\tif Double(2) != 4 {\n\t\tt.Error(\"wrong\")\n\t}\n}\n\nfunc TestLaw(t *testing.T) {\n\tif Law != \"return 1\\n\" {\n\t\tt.Error(\"wrong\")\n\t}\n}\n\nfunc TestWrong(t *testing.T) { t.Error(\"wrong\") }\n\nfunc TestSkipped(t *testing.T) { t.Skip() }\n",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	if err := os.MkdirAll(filepath.Join(dir, "internal", "mutants"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "internal", "mutants", "here.yaml"), mutations)
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// judged runs the command on a mutation, and returns the first line.
func judged(t *testing.T, mutation string) (line string, err error) {
	t.Helper()
	var out strings.Builder
	err = run(t.Context(), []string{"-dir", module(t, mutation), "-area", "here"}, &out)
	line, _, _ = strings.Cut(out.String(), "\n")
	return line, err
}

func TestMutations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ mutation, want string }{
		"killed":            {"{law: L, file: m.go, old: 2 * n, new: 3 * n, test: . -run TestDouble$}", "killed    here m.go  L"},
		"embedded file":     {"{law: L, file: law.lua, old: return 1, new: return 2, test: . -run TestLaw$}", "killed    here law.lua  L"},
		"survives":          {"{law: L, file: m.go, old: 2 * n, new: n * 2, test: . -run TestDouble$}", "SURVIVED  here m.go  L"},
		"old is not there":  {"{law: L, file: m.go, old: 4 * n, new: 3 * n, test: . -run TestDouble$}", "broken    here m.go  L"},
		"old is there more": {"{law: L, file: m.go, old: n, new: m, test: . -run TestDouble$}", "broken    here m.go  L"},
		"no such file":      {"{law: L, file: n.go, old: n, new: m, test: . -run TestDouble$}", "broken    here n.go  L"},
		"does not compile":  {"{law: L, file: m.go, old: 2 * n, new: 2 * m, test: . -run TestDouble$}", "broken    here m.go  L"},
		"no test":           {"{law: L, file: m.go, old: 2 * n, new: 3 * n, test: . -run TestTriple$}", "broken    here m.go  L"},
		"skipped":           {"{law: L, file: m.go, old: 2 * n, new: 3 * n, test: . -run TestSkipped$}", "broken    here m.go  L"},
		"fails anyway":      {"{law: L, file: m.go, old: 2 * n, new: 3 * n, test: . -run TestWrong$}", "broken    here m.go  L"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line, err := judged(t, "["+c.mutation+"]")
			if line != c.want {
				t.Errorf("got %q, want %q", line, c.want)
			}
			if (err == nil) != strings.HasPrefix(c.want, string(killed)) {
				t.Errorf("got error %v for a mutation that is %q", err, c.want)
			}
		})
	}
}

func TestBadMutations(t *testing.T) {
	t.Parallel()
	for mutations, want := range map[string]string{
		"[{law: L, file: ../m.go, old: a, new: b, test: .}]":         `file: "../m.go"`,
		"[{law: L, file: m.go, old: a, new: a, test: .}]":            "old:",
		"[{law: '', file: m.go, old: a, new: b, test: .}]":           "law:",
		"[{law: L, file: m.go, old: a, new: b, test: ''}]":           "test:",
		"[{law: L, file: m.go, old: a, new: b, test: ., more: yes}]": "more",
	} {
		if _, err := judged(t, mutations); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", mutations, err, want)
		}
	}
	if err := run(t.Context(), []string{"-dir", module(t, "[]"), "-area", "nowhere"}, &strings.Builder{}); err == nil {
		t.Error("got no error for an area that is not there")
	}
}

// Every mutation still fits the code: a change that moves its place is seen in CI,
// and not only when all are played.
func TestMutationsFitTheCode(t *testing.T) {
	t.Parallel()
	const root = "../.."
	all, err := load(root, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 100 {
		t.Errorf("got %d mutations; so few prove nothing", len(all))
	}
	for _, m := range all {
		if _, err := m.overlay(root, t.TempDir()); err != nil {
			t.Errorf("%s: %s: %v", m.place(), m.Law, err)
		}
	}
}
