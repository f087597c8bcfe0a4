package configs

import (
	"errors"
	"slices"
	"strings"
)

// reading is the config as far as the sources can be read. A value that can't be
// read is a fault, and its setting keeps the value of the earlier source.
type reading struct {
	config  Config
	faults  []error
	nothing bool // a source can't be read at all, so the config is empty
}

func unreadable(why error) *reading { return &reading{faults: []error{why}, nothing: true} }

// fault records a fault; nil is none.
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

// misread is the fault of a setting that can't be read.
type misread struct {
	path string
	err  error
}

func misreadAt(path string, err error) error { return &misread{path, err} }

func (m *misread) Error() string { return m.err.Error() }
func (m *misread) Unwrap() error { return m.err }

// Check is [Load] and [Config.Validate] in one: its error joins everything that is
// wrong with the settings. A value that can't be read is named once: the faults that
// Validate finds in the value in its place are left out. If the values are sound,
// node returns what the parts of a node refuse beyond that; it may be nil. If they
// are not, the files that the settings name are read all the same.
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

// concerns tells whether a path is one of those, leads to one or lies below one.
func concerns(path string, those []string) bool {
	return slices.ContainsFunc(those, func(other string) bool {
		return path == other || strings.HasPrefix(path, other+".") || strings.HasPrefix(other, path+".")
	})
}
