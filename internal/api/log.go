package api

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"dispatcher/internal/fault"
	"dispatcher/internal/loglevel"
	"dispatcher/internal/timetext"
)

const longestLevel = 31 * 24 * time.Hour

// logLevel is the level of this node's log.
type logLevel struct {
	Node  string `json:"node"`
	Level string `json:"level"`
	Usual string `json:"usual"`           // that of the configuration
	Until string `json:"until,omitempty"` // when the usual level returns; absent: it does not by itself, or it is in force
}

// ofLog serves where the level can be changed.
func (a *api) ofLog(serve func(*http.Request) (any, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		if a.level == nil {
			return nil, noSuchService("change the level of its log")
		}
		return serve(r)
	}
}

func (a *api) showLevel(*http.Request) (any, error) {
	level, until := a.level.State()
	return logLevel{Node: a.node, Level: loglevel.Name(level), Usual: loglevel.Name(a.level.Usual()), Until: timetext.Exact(until)}, nil
}

// setLevel changes the level of this node alone.
func (a *api) setLevel(r *http.Request) (any, error) {
	var name string
	ch, err := signed(r, map[string]any{"level": &name}, anEnd)
	if err != nil {
		return nil, err
	}
	level, known := loglevel.Named(name)
	var faults fault.List
	faults.Refuse(!known, "level", shown(json.RawMessage(name)), "must be %s", strings.Join(loglevel.Names(), ", "))
	faults.Refuse(ch.For > longestLevel, "for", ch.For, "must be at most %s", longestLevel)
	if err := faults.Err(); err != nil {
		return nil, err
	}
	old, _ := a.level.State()
	a.level.Set(level, ch.For)
	a.log.Log(r.Context(), max(slog.LevelWarn, level), "the log level was changed", // also where the new level hides warnings
		"from", loglevel.Name(old), "to", name, "for", ch.For, "by", ch.By, "why", ch.Why)
	return a.showLevel(r)
}
