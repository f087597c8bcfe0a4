package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dispatcher/internal/provider"
)

func TestAnswersGoByTheKey(t *testing.T) {
	t.Parallel()
	s := newScript(0)
	got := map[string][]provider.Answer{}
	keys := []string{"plain-1", "reject-1", "twice-1", "refuse-1", "hang-1"}
	ask := func() {
		for _, key := range keys {
			got[key] = append(got[key], s.answer(0, key))
		}
	}
	ask()
	ask()
	h := s.control(http.NotFoundHandler())
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/release", http.NoBody))
	ask()
	bad, down, hang := provider.Answer{Status: 400}, provider.Answer{Status: 503}, provider.Answer{Fault: provider.Hang}
	want := map[string][]provider.Answer{
		"plain-1": {{}, {}, {}}, "reject-1": {bad, bad, bad}, "twice-1": {down, down, {}},
		"refuse-1": {down, down, {}}, "hang-1": {hang, hang, {}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

func TestShakyAnswersAreTheSameInEachRun(t *testing.T) {
	t.Parallel()
	first, second, failed := newScript(0), newScript(0), 0
	const calls = 10_000
	for i := range calls {
		key := fmt.Sprintf("shaky-%d", i/4)
		a, b := first.answer(i, key), second.answer(i, key)
		if a != b {
			t.Fatalf("call %d: got %+v and %+v", i, a, b)
		}
		if a.Status == http.StatusServiceUnavailable {
			failed++
		}
	}
	if failed < calls/20 || failed > calls/5 {
		t.Errorf("got %d of %d calls failed, want about a tenth", failed, calls)
	}
}
