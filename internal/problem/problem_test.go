package problem_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"dispatcher/internal/fault"
	"dispatcher/internal/problem"
)

func TestProblems(t *testing.T) {
	t.Parallel()
	faults := problem.FaultsOf(errors.Join(fault.New("cap", 0, "must be 1 at least"), fault.New("file", fault.Hidden, "is no path")))
	w := httptest.NewRecorder()
	problem.Write(w, problem.Error{Status: http.StatusUnprocessableEntity, Detail: "no", Faults: faults})
	const want = `{"title":"Unprocessable Entity","status":422,"detail":"no","faults":[` +
		`{"field":"cap","value":"0","remedy":"must be 1 at least"},{"field":"file","value":"(hidden)","remedy":"is no path"}]}`
	if got := strings.TrimSpace(w.Body.String()); got != want || w.Code != 422 {
		t.Errorf("got %d %s, want %s", w.Code, got, want)
	}
	if h := w.Header(); h.Get("Content-Type") != "application/problem+json" || h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("got the headers %v", h)
	}
	if got := problem.FaultsOf(errors.New("another")); got != nil {
		t.Errorf("got %v of an error that is no fault", got)
	}
}
