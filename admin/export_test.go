package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
)

// AskReady asks /readyz without a network, which a bubble can't see into.
func AskReady(ctx context.Context, checks []Check) (int, string) {
	w := httptest.NewRecorder()
	ready(checks).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil))
	return w.Code, w.Body.String()
}
