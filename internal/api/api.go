package api

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"path"
	"time"

	"dispatcher/internal/limits"
	"dispatcher/internal/loglevel"
	"dispatcher/internal/overview"
	"dispatcher/internal/problem"
	"dispatcher/internal/redrive"
)

const (
	timeout     = 5 * time.Second // of all that Redis is asked for one request, and of a wait for the nodes
	maxRequests = 16
	maxBody     = 64 << 10 // bytes
)

// api serves the requests. All fields are set by [New].
type api struct {
	limits.Reader

	fleet    overview.Reader
	redrives Redrives
	letters  DeadLetters
	level    *loglevel.Level
	node     string
	log      *slog.Logger
	running  chan struct{} // holds a token for each request that is served
	scans    chan struct{} // likewise, of those that read dead letters
}

// Options of [New]. Without Redrives, DeadLetters or Level, the requests that need them are answered 404.
type Options struct {
	Reader      limits.Reader
	Redrives    Redrives
	DeadLetters DeadLetters

	Level  *loglevel.Level // of this node's log
	Node   string          // its name
	Logger *slog.Logger    // logs changes of the level; nil: nothing is logged
}

// New serves the limits that a reader reads, and the dead letters. It does not ask who calls: package auth does that before it.
func New(o Options) http.Handler {
	a := &api{
		Reader: o.Reader, fleet: overview.Reader{Reader: o.Reader}, redrives: o.Redrives, letters: o.DeadLetters,
		level: o.Level, node: o.Node, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
		running: make(chan struct{}, maxRequests), scans: make(chan struct{}, maxScans),
	}
	mux := http.NewServeMux()
	for pattern, serve := range a.routes() {
		mux.Handle(pattern, a.bounded(func(w http.ResponseWriter, r *http.Request) { answer(w, r, serve) }))
	}
	mux.Handle(eventsPattern, newStreams(a.live)) // is not one of those that are bounded in number and time
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(refusal(problem.Error{Status: http.StatusForbidden, Detail: "a page of another origin may not change anything"}))
	return guard.Handler(orProblem(mux))
}

// refusal answers with a problem.
func refusal(p problem.Error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { problem.Write(w, p) })
}

// orProblem serves the requests that have a pattern. net/http would answer the others with text, or redirect them to a path
// that another request has.
func orProblem(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := problem.Error{Status: http.StatusNotFound, Detail: "there is no such path: see /api/v1/openapi.json"}
		at := r.URL.EscapedPath()
		if path.Clean(at) != at {
			problem.Write(w, p)
			return
		}
		found, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		missed := headerOnly{}
		found.ServeHTTP(missed, r)
		if allowed := http.Header(missed).Get("Allow"); allowed != "" {
			w.Header().Set("Allow", allowed)
			p = problem.Error{Status: http.StatusMethodNotAllowed, Detail: "this path takes " + allowed}
		}
		problem.Write(w, p)
	})
}

// headerOnly keeps the header of an answer, and nothing else.
type headerOnly http.Header

func (h headerOnly) Header() http.Header         { return http.Header(h) }
func (h headerOnly) Write(b []byte) (int, error) { return len(b), nil }
func (h headerOnly) WriteHeader(int)             {}

const eventsPattern = "GET /api/v1/events"

// routes are the requests that are served, by their patterns, except the stream of events.
func (a *api) routes() map[string]func(*http.Request) (any, error) {
	return map[string]func(*http.Request) (any, error){
		"GET /api/v1/limits":                 a.list,
		"GET /api/v1/limits/{name}":          a.get,
		"PATCH /api/v1/limits/{name}":        a.patch,
		"POST /api/v1/limits/{name}/pause":   a.pause,
		"POST /api/v1/limits/{name}/resume":  a.resume,
		"POST /api/v1/limits/{name}/undo":    a.undo,
		"POST /api/v1/limits/{name}/release": a.release,
		"GET /api/v1/limits/{name}/history":  a.history,
		"GET /api/v1/overview":               a.ofFleet(overviewOf),
		"GET /api/v1/health":                 a.ofFleet(healthOf),
		"GET /api/v1/nodes":                  a.ofFleet(nodesOf),
		"GET /api/v1/lanes":                  a.ofFleet(lanesOf),
		"GET /api/v1/topics":                 a.ofFleet(topicsOf),
		"GET /api/v1/keys":                   a.ofFleet(keysOf),
		"GET /api/v1/calls":                  a.calls,
		"GET /api/v1/forecast":               a.forecast,
		"GET /api/v1/why":                    a.why,
		"GET /api/v1/rules":                  a.rules,
		"POST /api/v1/rules":                 a.addRule,
		"DELETE /api/v1/rules/{id}":          a.endRule,
		"GET /api/v1/rules/history":          a.ruleHistory,
		"GET /api/v1/rules/preview":          a.previewRule,
		"GET /api/v1/dead-letters":           a.deadLetters,
		"POST /api/v1/dead-letters/replay":   a.ofRedrives(a.settle(redrive.Replay)),
		"POST /api/v1/dead-letters/drop":     a.ofRedrives(a.settle(redrive.Drop)),
		"GET /api/v1/redrives":               a.ofRedrives(a.listRedrives),
		"GET /api/v1/redrives/{id}":          a.ofRedrives(a.redrive),
		"POST /api/v1/redrives/{id}/stop":    a.ofRedrives(a.stopRedrive),
		"GET /api/v1/redrives/history":       a.ofRedrives(a.redriveHistory),
		"GET /api/v1/log":                    a.ofLog(a.showLevel),
		"PUT /api/v1/log":                    a.ofLog(a.setLevel),
		"GET /api/v1/openapi.json":           document,
	}
}

// answer writes what serve returns, or its error as a problem.
func answer(w http.ResponseWriter, r *http.Request, serve func(*http.Request) (any, error)) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	err := checkQuery(r)
	var body any
	if err == nil {
		body, err = serve(r.WithContext(ctx))
	}
	if err != nil {
		problem.Write(w, problemOf(err))
		return
	}
	status := http.StatusOK
	switch b := body.(type) {
	case *limits.Document:
		w.Header().Set("ETag", tagOf(b.Revision))
	case started:
		w.Header().Set("Location", "/api/v1/redrives/"+b.ID)
		status = http.StatusAccepted
	}
	problem.WriteJSON(w, status, "application/json", body)
}

// bounded serves so many requests at once, and bodies of so many bytes.
func (a *api) bounded(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case a.running <- struct{}{}:
			defer func() { <-a.running }()
		default:
			w.Header().Set("Retry-After", "1")
			problem.Write(w, problem.Error{Status: http.StatusServiceUnavailable, Detail: "too many requests are being served; ask again in a second"})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next(w, r)
	})
}
