package api

import (
	"errors"
	"net/http"

	"dispatcher/internal/limits"
	"dispatcher/internal/problem"
	"dispatcher/internal/redrive"
	"dispatcher/internal/rules"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// problemOf says what an error means for who called. Nothing was changed, unless the error says so.
func problemOf(err error) problem.Error {
	p := problem.Error{Status: http.StatusServiceUnavailable, Detail: err.Error()}
	if found := problem.FaultsOf(err); len(found) > 0 {
		p.Status, p.Faults = http.StatusUnprocessableEntity, found
		return p
	}
	if own, ok := errors.AsType[problem.Error](err); ok {
		return own
	}
	if stale, ok := errors.AsType[*control.RevisionError](err); ok {
		p.Status, p.Revision = http.StatusPreconditionFailed, stale.Now.Revision
		return p
	}
	if refused, ok := errors.AsType[*limit.GuardrailError](err); ok {
		p.Status, p.Refused = http.StatusUnprocessableEntity, refused.Guardrail+": "+refused.Why
		p.Detail = p.Refused + `; nothing was changed: "force": true passes it`
		return p
	}
	switch {
	case errors.Is(err, control.ErrUnknownLimit), errors.Is(err, rules.ErrUnknown), errors.Is(err, redrive.ErrUnknown):
		p.Status = http.StatusNotFound
	case errors.Is(err, limits.ErrWhichValue):
		p.Status = http.StatusUnprocessableEntity
	case errors.Is(err, control.ErrBusy), errors.Is(err, rules.ErrBusy), errors.As(err, new(*control.UndoError)), redriveConflict(err):
		p.Status = http.StatusConflict
	}
	return p
}
