package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// checkTimeout bounds all checks together. It is below the usual timeout of probes, so
// that they get the reason.
const checkTimeout = 2 * time.Second

// Check is one thing a node needs to be able to work.
type Check struct {
	// Name is one word for the checked part.
	Name string
	// Check returns why the part does not work, or nil, and a note for people. It is
	// called from several goroutines at once, and must return when its context ends.
	// Every viewer can read both, so they must hold no secret.
	Check func(context.Context) (note string, err error)
}

// Result is what a check found.
type Result struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Note  string `json:"note,omitempty"`
	Error string `json:"error,omitempty"`
}

// Readiness is what all checks found. Its JSON is the answer of /readyz.
type Readiness struct {
	Ready  bool     `json:"ready"`
	Checks []Result `json:"checks"`
}

// ready answers a caller that is not trusted without notes and errors: these name hosts.
func ready(checks []Check, trusts func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := Ask(r.Context(), checks)
		if !trusts(r) {
			for i, c := range answer.Checks {
				answer.Checks[i] = Result{Name: c.Name, OK: c.OK}
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if !answer.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(answer) // the client is gone
	})
}

// Ask runs all checks at the same time, for two seconds at most, so that one that hangs does not hide the others.
func Ask(ctx context.Context, checks []Check) Readiness {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	answer := Readiness{Ready: true, Checks: make([]Result, len(checks))}
	var asked sync.WaitGroup
	for i, c := range checks {
		asked.Go(func() {
			result := Result{Name: c.Name, OK: true}
			note, err := c.Check(ctx)
			result.Note = note
			if err != nil {
				result.OK, result.Error = false, err.Error()
			}
			answer.Checks[i] = result
		})
	}
	asked.Wait()
	for _, c := range answer.Checks {
		answer.Ready = answer.Ready && c.OK
	}
	return answer
}
