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

type checkResult struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Note  string `json:"note,omitempty"`
	Error string `json:"error,omitempty"`
}

type readiness struct {
	Ready  bool          `json:"ready"`
	Checks []checkResult `json:"checks"`
}

// ready answers a caller that is not trusted without notes and errors: these name hosts.
func ready(checks []Check, trusts func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := ask(r.Context(), checks)
		if !trusts(r) {
			for i, c := range answer.Checks {
				answer.Checks[i] = checkResult{Name: c.Name, OK: c.OK}
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

// ask runs all checks at the same time, so that one that hangs does not hide the others.
func ask(ctx context.Context, checks []Check) readiness {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	answer := readiness{Ready: true, Checks: make([]checkResult, len(checks))}
	var asked sync.WaitGroup
	for i, c := range checks {
		asked.Go(func() {
			result := checkResult{Name: c.Name, OK: true}
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
