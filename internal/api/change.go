package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"dispatcher/internal/auth"
	"dispatcher/internal/problem"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// change is how a limit is changed, and returns what is in force after it.
type change func(*control.Control, context.Context, control.Change) (limit.Settings, error)

// patch changes settings. It must name the revision that it is meant for.
func (a *api) patch(r *http.Request) (any, error) {
	b, err := readBody(r)
	if err != nil {
		return nil, err
	}
	ch, err := b.change(r, anEndAndForce)
	if err != nil {
		return nil, err
	}
	if ch.Values, err = b.values(); err != nil {
		return nil, err
	}
	if len(ch.Values) == 0 {
		return nil, problem.Error{Status: http.StatusUnprocessableEntity, Detail: "the body names no setting to change, such as cap or window"}
	}
	if ch.IfRevision, err = expected(r); err != nil {
		return nil, err
	}
	return a.carryOut(r, ch, (*control.Control).Set)
}

func (a *api) pause(r *http.Request) (any, error)  { return a.setPaused(r, true) }
func (a *api) resume(r *http.Request) (any, error) { return a.setPaused(r, false) }

func (a *api) setPaused(r *http.Request, paused bool) (any, error) {
	ch, err := signed(r, nil, anEndAndForce)
	if err != nil {
		return nil, err
	}
	ch.Values = parameters.Values{"paused": strconv.FormatBool(paused)}
	return a.carryOut(r, ch, (*control.Control).Set)
}

// undo takes the last change back, or returns to the revision that `to` names. Without `to`, what it takes back depends on the
// revision in force, which it must name as a patch does.
func (a *api) undo(r *http.Request) (any, error) {
	var to int64
	ch, err := signed(r, map[string]any{"to": &to}, anEndAndForce)
	if err != nil {
		return nil, err
	}
	if to == 0 || r.Header.Get("If-Match") != "" {
		if ch.IfRevision, err = expected(r); err != nil {
			return nil, err
		}
	}
	return a.carryOut(r, ch, func(c *control.Control, ctx context.Context, ch control.Change) (limit.Settings, error) {
		return c.Undo(ctx, to, ch)
	})
}

// release ends what the provider's answers hold up; of a gate, the block of one value of its key.
func (a *api) release(r *http.Request) (any, error) {
	var key, hash string
	ch, err := signed(r, map[string]any{"key": &key, "hash": &hash}, nothingMore)
	if err != nil {
		return nil, err
	}
	of, err := valueOf(key, hash)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	err = a.Release(r.Context(), name, of, ch.By, ch.Why)
	released := err == nil
	if !released && !errors.Is(err, control.ErrNotSlowed) {
		return nil, err
	}
	d, err := a.Read(r.Context(), name, of)
	if err != nil && released {
		err = fmt.Errorf("limit %q is released, but could not be read after that: %w", name, err)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// carryOut makes a change, and waits for the nodes where the request asks for that. What is in force already is no error.
func (a *api) carryOut(r *http.Request, ch control.Change, do change) (any, error) {
	name := r.PathValue("name")
	operator, err := a.Control(name)
	if err != nil {
		return nil, err
	}
	now, err := do(operator, r.Context(), ch)
	if err != nil && !errors.Is(err, control.ErrUnchanged) {
		return nil, err
	}
	after, all := await(r, operator, now)
	d, err := a.Describe(r.Context(), operator, name, nil, now)
	if err != nil {
		return nil, fmt.Errorf("revision %d is set, but the limit could not be read after that: %w", now.Revision, err)
	}
	if all {
		seconds := after.Seconds()
		d.InForce.AfterS = &seconds
	}
	return d, nil
}

// await waits with ?wait=true until each node knows the settings, for three seconds at most. The document says which do not.
func await(r *http.Request, operator *control.Control, now limit.Settings) (took time.Duration, all bool) {
	if wait, _ := waits(r); !wait { // [body.change] has refused what is neither true nor false
		return 0, false
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout*3/5)
	defer cancel()
	_, took, err := operator.Await(ctx, now)
	return took, err == nil
}

// author names who made a request, for the history: as the token says, else as the request itself says, and from where.
func author(r *http.Request, by string) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	if caller, known := auth.From(r.Context()); known {
		by = caller.Name
	}
	if by == "" {
		return "api from " + host
	}
	return by + " from " + host
}
