// Package loglevel changes at run time what a process logs.
//
// It logs nothing itself, and starts no goroutine: a change for a time is over when the next line is looked at.
package loglevel

import (
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Names are those of all levels, the lowest first.
func Names() []string { return []string{"debug", "info", "warn", "error"} }

// Named is the level of one of [Names]; false: it is none.
func Named(name string) (level slog.Level, ok bool) {
	if !slices.Contains(Names(), name) {
		return level, false
	}
	return level, level.UnmarshalText([]byte(name)) == nil
}

// Name is the level's, as in [Names].
func Name(level slog.Level) string { return strings.ToLower(level.String()) }

// Level is the lowest level that is logged. Make it with [New]; it may be used from any goroutine. It is a [slog.Leveler].
type Level struct {
	usual   slog.Level
	changed atomic.Pointer[change] // nil: usual holds
}

type change struct {
	to    slog.Level
	until time.Time // zero: it does not end by itself
}

// New makes a level.
func New(usual slog.Level) *Level { return &Level{usual: usual} }

// Level is the one in force.
func (l *Level) Level() slog.Level {
	level, _ := l.State()
	return level
}

// Usual is the level that a change for a time returns to.
func (l *Level) Usual() slog.Level { return l.usual }

// State is the level in force, and when it returns to the usual one; zero: it does not.
func (l *Level) State() (level slog.Level, until time.Time) {
	c := l.changed.Load()
	if c == nil || !c.until.IsZero() && !time.Now().Before(c.until) {
		return l.usual, time.Time{}
	}
	return c.to, c.until
}

// Set changes the level for a time, or for good where lasts is 0. It replaces an earlier change.
func (l *Level) Set(to slog.Level, lasts time.Duration) {
	c := &change{to: to}
	if lasts > 0 {
		c.until = time.Now().Add(lasts)
	}
	l.changed.Store(c)
}
