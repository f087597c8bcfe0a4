package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// testTimeout ends a test that a mutation makes hang, and commandTimeout a command that does not end then.
const (
	testTimeout    = "-timeout=3m"
	commandTimeout = 10 * time.Minute // it also compiles
)

// result is the result of go test.
type result struct {
	failed bool
	err    error // no result: no build, or no test
}

func (r result) String() string {
	switch {
	case r.err != nil:
		return r.err.Error()
	case r.failed:
		return "the test fails"
	}
	return "the test passes"
}

// event is a line of go test -json.
type event struct {
	Action string
	Test   string
	Output string
}

// goTest runs one test command, which is split at blanks, with a build cache.
func goTest(ctx context.Context, dir, cache, args string, flags ...string) result {
	argv := append([]string{"test", "-json", "-count=1", testTimeout}, flags...)
	return resultOf(ctx, dir, []string{"GOCACHE=" + cache}, append(argv, strings.Fields(args)...)...)
}

// resultOf runs the go command in a directory, with variables of the environment. The command must print what go test -json does.
func resultOf(ctx context.Context, dir string, variables []string, args ...string) result {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // the commands are the repository's own
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = append(append(cmd.Environ(), variables...), "RAPID_SHRINKTIME=0s", "RAPID_NOFAILFILE=true") // that a property fails is all that is asked
	var said, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &complaint
	failed := cmd.Run()
	if failed != nil && cmd.ProcessState == nil {
		return result{err: failed}
	}
	r, err := parseOutput(&said, failed != nil)
	if err != nil {
		return result{err: fmt.Errorf("%w %s", err, lastLine(complaint.String()))}
	}
	return r
}

// parseOutput reads the output of go test -json. An error means that the run shows
// nothing.
func parseOutput(said io.Reader, failed bool) (result, error) {
	ran, skipped := 0, 0
	for lines := json.NewDecoder(said); ; {
		var e event
		switch err := lines.Decode(&e); {
		case errors.Is(err, io.EOF):
			if ran == skipped {
				return result{}, fmt.Errorf("no test was run, and %d were skipped", skipped)
			}
			return result{failed: failed}, nil
		case err != nil:
			return result{}, fmt.Errorf("reading go test's output: %w", err)
		case e.Action == "build-fail":
			return result{}, errors.New("it does not compile")
		case e.Action == "run":
			ran++
		case e.Action == "skip" && e.Test != "":
			skipped++
		}
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// tests remembers the results of test commands without a mutation. Those of one package share its test binary: to link it takes
// longer than most tests.
type tests struct {
	dir   string
	built string // where the binaries are
	mu    sync.Mutex
	ran   map[string]result
	bins  map[string]func() (string, error) // by package: makes its binary, once, and returns its path
}

func newTests(dir, built string) *tests {
	return &tests{dir: dir, built: built, ran: map[string]result{}, bins: map[string]func() (string, error){}}
}

// of is the result of a command that run has run.
func (t *tests) of(args string) result {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ran[args]
}

func (t *tests) run(ctx context.Context, args string) {
	r := t.runOnce(ctx, args)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ran[args] = r
}

// runOnce does as go test does: a package's tests run in its directory.
func (t *tests) runOnce(ctx context.Context, args string) result {
	command := strings.Fields(args)
	pkg, flags := command[0], command[1:]
	binary, err := t.binary(ctx, pkg)()
	if err != nil {
		return result{err: err}
	}
	argv := []string{"tool", "test2json", binary, "-test.v=test2json", "-test.paniconexit0", "-test." + testTimeout[1:]}
	for _, f := range flags {
		if name, isFlag := strings.CutPrefix(f, "-"); isFlag {
			f = "-test." + name
		}
		argv = append(argv, f)
	}
	return resultOf(ctx, filepath.Join(t.dir, filepath.FromSlash(pkg)), nil, argv...)
}

// binary returns what makes a package's test binary at its first call.
func (t *tests) binary(ctx context.Context, pkg string) func() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bins[pkg] == nil {
		path := filepath.Join(t.built, fmt.Sprintf("%d.test", len(t.bins)))
		t.bins[pkg] = sync.OnceValues(func() (string, error) {
			cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", path, pkg) //nolint:gosec // the packages are the repository's own
			cmd.Dir = t.dir
			if said, err := cmd.CombinedOutput(); err != nil {
				return "", fmt.Errorf("%s: %w: %s", pkg, err, lastLine(string(said)))
			}
			return path, nil
		})
	}
	return t.bins[pkg]
}
