package configs

import (
	"errors"
	"strings"
)

// reading is what the sources hold, as far as it can be read. What can't be read
// is a fault, and the setting keeps the value that it has without it.
type reading struct {
	config Config
	faults []error
	// nothing: the config is empty, for a source can't be read at all.
	nothing bool
}

func unreadable(why error) *reading { return &reading{faults: []error{why}, nothing: true} }

// fault records what can't be read; nil is no fault.
func (r *reading) fault(err error) {
	if err != nil {
		r.faults = append(r.faults, err)
	}
}

// unread are the paths of the settings that can't be read.
func (r *reading) unread() []string {
	var paths []string
	for _, fault := range r.faults {
		if at, ok := errors.AsType[*misread](fault); ok {
			paths = append(paths, at.path)
		}
	}
	return paths
}

// misread is a fault of the setting at a path, which keeps another value.
type misread struct {
	path string
	err  error
}

func misreadAt(path string, err error) error {
	if err == nil {
		return nil
	}
	return &misread{path, err}
}

func (m *misread) Error() string { return m.err.Error() }
func (m *misread) Unwrap() error { return m.err }

// Check is [Load] and [Config.Validate] in one: its error joins all that is wrong
// with the settings. A value that can't be read is named once: what Validate says
// of the value in its place is left out. If the values are sound, node says what
// the parts of a node refuse beyond that; nil: it is not asked. If they are not,
// the files that the settings name are read all the same.
func Check(src Source, node func(Config) error) (Config, error) {
	r := read(src)
	if r.nothing {
		return Config{}, errors.Join(r.faults...)
	}
	unread := r.unread()
	all := append(r.faults, r.config.faultsBeside(unread)...)
	switch {
	case node == nil:
	case r.config.Validate() != nil:
		all = append(all, r.config.faultsOfFiles(unread)...)
	default:
		all = append(all, node(r.config))
	}
	return r.config, errors.Join(all...)
}

// related tells whether one path is the other one, or leads to it.
func related(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}
