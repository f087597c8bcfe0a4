package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// mutation is a change that breaks a law, and the test that must detect it.
type mutation struct {
	Law  string `yaml:"law"`
	File string `yaml:"file"` // from the module's root, with slashes
	Old  string `yaml:"old"`  // stands in the file exactly once
	New  string `yaml:"new"`  // its replacement; may be empty
	Test string `yaml:"test"` // a package, then flags of go test

	area string
}

func (m *mutation) place() string { return m.area + " " + m.File }

// load reads the mutations of one area, or of all.
func load(dir, area string) ([]mutation, error) {
	name := "*"
	if area != "" {
		name = area
	}
	files, err := filepath.Glob(filepath.Join(dir, "internal", "mutants", name+".yaml"))
	if err != nil {
		return nil, fmt.Errorf("area %q: %w", area, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("area %q: there is no such file in internal/mutants", area)
	}
	slices.Sort(files)
	var all []mutation
	for _, file := range files {
		some, err := read(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

func read(file string) ([]mutation, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []mutation
	strict := yaml.NewDecoder(bytes.NewReader(text))
	strict.KnownFields(true)
	if err := strict.Decode(&all); err != nil {
		return nil, err
	}
	for i := range all {
		m := &all[i]
		m.area = strings.TrimSuffix(filepath.Base(file), ".yaml")
		if err := m.validate(); err != nil {
			return nil, fmt.Errorf("mutation %d (%q): %w", i+1, m.Law, err)
		}
	}
	return all, nil
}

func (m *mutation) validate() error {
	switch {
	case m.Law == "":
		return errors.New("law: is empty; say which law the mutation breaks")
	case !filepath.IsLocal(filepath.FromSlash(m.File)):
		return fmt.Errorf("file: %q: must be a path from the module's root", m.File)
	case m.Old == "" || m.Old == m.New:
		return errors.New("old: must not be empty, and must differ from new")
	case !strings.HasPrefix(m.Test, "."):
		return fmt.Errorf("test: %q: must begin with a package, such as ./consumer", m.Test)
	}
	return nil
}

// overlay writes the changed file and the list that go test -overlay wants into
// a directory. It returns the path of the list.
func (m *mutation) overlay(dir, into string) (string, error) {
	original, err := filepath.Abs(filepath.Join(dir, filepath.FromSlash(m.File)))
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.Old); n != 1 {
		return "", fmt.Errorf("old: stands %d times in %s, must be once", n, m.File)
	}
	changed := filepath.Join(into, filepath.Base(original))
	if err := os.WriteFile(changed, []byte(strings.Replace(string(text), m.Old, m.New, 1)), 0o600); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(into, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}

// outcome is the result of a mutation.
type outcome string

const (
	killed   outcome = "killed"
	survived outcome = "SURVIVED"
	broken   outcome = "broken"
)

type outcomeOf struct {
	outcome outcome
	why     string // of one that is broken
}

// try runs the mutation's test with it. cache is the build cache: what is built of a mutation is gigabytes for all of them, and
// serves nobody later.
func (m *mutation) try(ctx context.Context, dir, cache string, plain *tests) outcomeOf {
	if r := plain.of(m.Test); r.err != nil || r.failed {
		return outcomeOf{broken, "without the mutation: " + r.String()}
	}
	into, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return outcomeOf{broken, err.Error()}
	}
	defer func() { _ = os.RemoveAll(into) }()
	overlay, err := m.overlay(dir, into)
	if err != nil {
		return outcomeOf{broken, err.Error()}
	}
	r := goTest(ctx, dir, cache, m.Test, "-overlay="+overlay, "-failfast", "-vet=off")
	switch {
	case r.err != nil:
		return outcomeOf{broken, r.String()}
	case r.failed:
		return outcomeOf{outcome: killed}
	}
	return outcomeOf{outcome: survived}
}
