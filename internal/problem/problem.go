package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"dispatcher/internal/fault"
)

// Error is an error as its client gets it.
type Error struct {
	Title    string  `json:"title"` // of the status; [Error.Titled] sets it
	Status   int     `json:"status"`
	Detail   string  `json:"detail"`
	Faults   []Fault `json:"faults,omitempty"`
	Revision int64   `json:"revision,omitempty"` // in force, where the request was meant for another one
	Refused  string  `json:"refused,omitempty"`  // why a guardrail refuses a change, which "force": true passes
}

// Fault is one value that can't be honoured.
type Fault struct {
	Field  string `json:"field"`
	Value  string `json:"value"`
	Remedy string `json:"remedy"`
}

func (e Error) Error() string { return e.Detail }

// Write answers with a problem.
func Write(w http.ResponseWriter, e Error) {
	WriteJSON(w, e.Status, "application/problem+json", e.Titled())
}

// Titled is the error with the title of its status.
func (e Error) Titled() Error {
	e.Title = http.StatusText(e.Status)
	return e
}

// WriteJSON answers with a document of a media type, which nobody keeps.
func WriteJSON(w http.ResponseWriter, status int, kind string, body any) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone
}

// FaultsOf are the faults of an error; none: it is another one.
func FaultsOf(err error) (all []Fault) {
	if _, ok := errors.AsType[*fault.Error](err); !ok {
		return nil
	}
	for _, e := range fault.All(err) {
		all = append(all, Fault{Field: e.Field, Value: fmt.Sprint(e.Value), Remedy: e.Remedy})
	}
	return all
}
