package admin

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
)

// AskReady asks /readyz without a network, which a bubble can't see into.
func AskReady(ctx context.Context, checks []Check) (int, string) {
	w := httptest.NewRecorder()
	trusts := func(*http.Request) bool { return true }
	ready(checks, trusts).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil))
	return w.Code, w.Body.String()
}

// On is a server on a listener that a test has made.
func On(listener net.Listener, o Options) (*Server, error) {
	s := &Server{log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler))}
	return s, s.serveOn(listener, o)
}
