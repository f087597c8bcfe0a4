package api

import (
	"errors"
	"fmt"
	"net/http"

	"dispatcher/internal/fault"
	"dispatcher/internal/limits"
	"dispatcher/internal/rules"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// problem is an error as RFC 9457 writes it.
type problem struct {
	Title    string      `json:"title"`
	Status   int         `json:"status"`
	Detail   string      `json:"detail"`
	Faults   []faultJSON `json:"faults,omitempty"`
	Revision int64       `json:"revision,omitempty"` // in force, where the request was meant for another one
}

// faultJSON is one value that can't be honoured.
type faultJSON struct {
	Field  string `json:"field"`
	Value  string `json:"value"`
	Remedy string `json:"remedy"`
}

func (p problem) Error() string { return p.Detail }

func writeProblem(w http.ResponseWriter, p problem) {
	writeJSON(w, p.Status, "application/problem+json", titled(p))
}

func titled(p problem) problem {
	p.Title = http.StatusText(p.Status)
	return p
}

// problemOf says what an error means for who called. Nothing was changed.
func problemOf(err error) problem {
	p := problem{Status: http.StatusServiceUnavailable, Detail: err.Error()}
	if found := faultsOf(err); len(found) > 0 {
		p.Status, p.Faults = http.StatusUnprocessableEntity, found
		return p
	}
	if own, ok := errors.AsType[problem](err); ok {
		return own
	}
	if stale, ok := errors.AsType[*control.RevisionError](err); ok {
		p.Status, p.Revision = http.StatusPreconditionFailed, stale.Now.Revision
		return p
	}
	if refused, ok := errors.AsType[*limit.GuardrailError](err); ok {
		p.Status, p.Detail = http.StatusUnprocessableEntity, fmt.Sprintf(`%s: %s; nothing was changed: "force": true passes it`, refused.Guardrail, refused.Why)
		return p
	}
	switch {
	case errors.Is(err, control.ErrUnknownLimit), errors.Is(err, rules.ErrUnknown):
		p.Status = http.StatusNotFound
	case errors.Is(err, limits.ErrWhichValue):
		p.Status = http.StatusUnprocessableEntity
	case errors.Is(err, control.ErrBusy), errors.Is(err, rules.ErrBusy), errors.As(err, new(*control.UndoError)):
		p.Status = http.StatusConflict
	}
	return p
}

// faultsOf are the faults of an error; none: it is another one.
func faultsOf(err error) (all []faultJSON) {
	if _, ok := errors.AsType[*fault.Error](err); !ok {
		return nil
	}
	for _, e := range fault.All(err) {
		all = append(all, faultJSON{Field: e.Field, Value: fmt.Sprint(e.Value), Remedy: e.Remedy})
	}
	return all
}
