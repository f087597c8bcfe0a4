package main

import (
	"context"
	"fmt"
	"strings"

	"dispatcher/configs"
	"dispatcher/throttle/limit"
)

// termsState are the terms of a limit in JSON.
type termsState struct {
	Algorithm string  `json:"algorithm"`
	Cap       int64   `json:"cap"`
	WindowS   float64 `json:"window_s"`
	Burst     int64   `json:"burst"`
	GuardS    float64 `json:"guard_s"`
	GuardAuto bool    `json:"guard_auto"` // the fleet chooses guard and lateness
	LatenessS float64 `json:"lateness_s"`
	SpreadS   float64 `json:"spread_s"`
	HorizonS  float64 `json:"horizon_s"`
	Paused    bool    `json:"paused"`
}

func newTermsState(t limit.Terms) termsState {
	return termsState{
		Algorithm: t.Algorithm,
		Cap:       t.Cap, WindowS: t.Window.Seconds(), Burst: t.Burst, GuardS: t.Guard.Seconds(),
		GuardAuto: t.Auto, LatenessS: t.Lateness.Seconds(), SpreadS: t.Spread.Seconds(), HorizonS: t.Horizon.Seconds(), Paused: t.Paused,
	}
}

// limitState is a limit as it is in force, and how the file differs from it.
type limitState struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	termsState
	Share     float64      `json:"share"`
	Revision  int64        `json:"revision"`
	Changed   string       `json:"changed,omitempty"`
	By        string       `json:"by,omitempty"`
	Why       string       `json:"why,omitempty"`
	MaxCap    int64        `json:"max_cap"`             // 0: none
	MaxStep   float64      `json:"max_step"`            // a factor; 0: none
	RevertAt  string       `json:"revert_at,omitempty"` // when an override ends
	RevertInS *float64     `json:"revert_in_s,omitempty"`
	RevertTo  *termsState  `json:"revert_to,omitempty"` // in force after that
	InForce   inForce      `json:"in_force"`
	InFile    bool         `json:"in_file"`
	Differs   []difference `json:"differs"`
	Chosen    *chosen      `json:"lateness_chosen,omitempty"`
	Trips     *roundTrips  `json:"round_trips,omitempty"` // where the guard is auto

	unconfirmed bool // changed just now, without --wait
}

// chosen is when and why the fleet chose the lateness that is in force.
type chosen struct {
	At  string `json:"at"`
	Why string `json:"why"`
}

// chosenLateness finds the fleet's choice in the history, if no later change replaced it.
func (c limitConn) chosenLateness(ctx context.Context, now limit.Settings) (*chosen, error) {
	const far = 1000 // all there is
	if !now.Auto {
		return nil, nil //nolint:nilnil // there is none
	}
	entries, err := c.control.History(ctx, far)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Chosen() {
			return &chosen{At: exact(e.Changed), Why: strings.TrimPrefix(e.Why, "guard auto: ")}, nil
		}
		if !e.From.Auto || e.From.Lateness != e.To.Lateness {
			break // an operator set another one since
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

// difference is a setting that differs between the file and Redis.
type difference struct {
	Field string `json:"field"`
	File  string `json:"file"`
	Redis string `json:"redis"`
}

func newLimitState(cfg configs.Config, name string, now limit.Settings) limitState {
	state := limitState{
		Name: name, Namespace: cfg.Redis.Namespace,
		termsState: newTermsState(now.Terms),
		Share:      now.UsableShare(), Revision: now.Revision, Changed: stamp(now.Changed), By: now.By, Why: now.Why,
		MaxCap: now.MaxCap, MaxStep: now.MaxStep, Differs: []difference{},
	}
	for _, l := range cfg.Limits {
		if l.Name == name {
			state.InFile = true
			state.Differs = differences(stated(l), now.Terms)
		}
	}
	return state
}

// stated are the terms that the file states.
func stated(l configs.Limit) limit.Terms { return l.Stated().Settings().Terms }

func differences(file, redis limit.Terms) []difference {
	found := []difference{}
	for _, d := range []difference{
		{"algorithm", file.Algorithm, redis.Algorithm},
		{"cap", fmt.Sprint(file.Cap), fmt.Sprint(redis.Cap)},
		{"window", short(file.Window), short(redis.Window)},
		{"burst", fmt.Sprint(file.Burst), fmt.Sprint(redis.Burst)},
		{"guard", guardText(file), guardText(redis)},
		{"spread", short(file.Spread), short(redis.Spread)},
		{"lateness", latenessText(file), latenessText(redis)},
		{"horizon", short(file.Horizon), short(redis.Horizon)},
		{"reserve", fmt.Sprint(file.Reserve), fmt.Sprint(redis.Reserve)},
		{"max_nodes", fmt.Sprint(file.MaxNodes), fmt.Sprint(redis.MaxNodes)},
	} {
		if d.File != d.Redis {
			found = append(found, d)
		}
	}
	return found
}

// guardText writes a guard as it is written in the configuration.
func guardText(c limit.Terms) string {
	if c.Auto {
		return configs.GuardAuto
	}
	return short(c.Guard)
}

// latenessText is the lateness, or auto if the fleet chooses it.
func latenessText(c limit.Terms) string {
	if c.Auto {
		return configs.GuardAuto
	}
	return short(c.Lateness)
}
