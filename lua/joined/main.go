// Command joined writes each script as Redis runs it into a directory, for a linter:
//
//	go run ./lua/joined DIRECTORY
//
// The directory is made where it is missing. Scripts of an earlier run are removed.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"dispatcher/lua"
	"dispatcher/throttle/limit"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: joined DIRECTORY")
	}
	return write(args[0])
}

func write(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("make the directory: %w", err)
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.lua"))
	for _, path := range old {
		err = errors.Join(err, os.Remove(path))
	}
	for name, text := range scripts() {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name+".lua"), []byte(text), 0o600))
	}
	if err != nil {
		return fmt.Errorf("write the scripts: %w", err)
	}
	return nil
}

// scripts are all that the program runs, by name.
func scripts() map[string]string {
	all := map[string]string{
		"configure": lua.Configure(), "delete": lua.Delete(), "lease": lua.Lease(), "lateness": lua.Lateness(), "feedback": lua.Feedback(),
		"release": lua.Release(), "register": lua.Register(), "rules": lua.Rules(), "redrive": lua.Redrive(),
		"dedup": lua.Dedup(),
	}
	for _, a := range limit.Algorithms() {
		all["reserve_"+a.Name] = lua.Reserve(a.Name, a.Script, a.Ahead)
	}
	return all
}
