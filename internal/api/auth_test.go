package api_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dispatcher/internal/api"
	"dispatcher/internal/auth"
)

// callers are a viewer and an operator, whose tokens lie in files.
func callers(t *testing.T) auth.Options {
	t.Helper()
	var o auth.Options
	for _, role := range []auth.Role{auth.Viewer, auth.Operator} {
		file := filepath.Join(t.TempDir(), string(role))
		if err := os.WriteFile(file, []byte("the-token-of-a-"+string(role)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		o.Tokens = append(o.Tokens, auth.Token{Name: "anna-" + string(role), Role: role, File: file})
	}
	return o
}

func tokenIn(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// A viewer reads, and changes nothing, whatever the path and the method. Without a token nobody reads either.
func TestAViewerChangesNothing(t *testing.T) {
	t.Parallel()
	s := serveTo(t, callers(t))
	nobody := s
	nobody.token = ""
	methods := []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace, "BREW",
	}
	for _, pattern := range api.Patterns() {
		_, path, _ := strings.Cut(pattern, " /api/v1/")
		path = strings.ReplaceAll(path, "{name}", "provider")
		for _, method := range methods {
			body := `{}`
			if strings.HasPrefix(pattern, http.MethodPatch) {
				body = `{"cap":300}`
			}
			reads := method == http.MethodGet || method == http.MethodHead
			if o := nobody.ask(method, path, body, "If-Match: *"); o.status != http.StatusUnauthorized {
				t.Errorf("%s %s: got %d without a token, want 401: %s", method, path, o.status, o.text)
			}
			if reads && path == "events" {
				continue // has no end
			}
			o := s.ask(method, path, body, "If-Match: *", "X-Http-Method-Override: POST")
			switch {
			case !reads && o.status != http.StatusForbidden:
				t.Errorf("%s %s: got %d for a viewer, want 403: %s", method, path, o.status, o.text)
			case reads && (o.status == http.StatusUnauthorized || o.status == http.StatusForbidden):
				t.Errorf("%s %s: got %d for a viewer, want an answer: %s", method, path, o.status, o.text)
			}
		}
	}
	s.must(s.get("limits/provider"), 200, `"revision":1`, `"paused":false`)
	s.must(s.get("limits/provider/history"), 200, `[]`)
	s.must(s.ask(http.MethodPost, "limits/provider/pause", ""), 403, `"title":"Forbidden"`, "anna-viewer")
}

// The history has the name of the token, and no other.
func TestATokenSignsItsChanges(t *testing.T) {
	t.Parallel()
	who := callers(t)
	s := serveTo(t, who)
	s.token = tokenIn(t, who.Tokens[1].File)
	s.must(s.patch("provider", `{"cap":300}`, "If-Match: *"), 200, `"by":"anna-operator from 127.0.0.1"`)
	for _, by := range []string{`"bob"`, `"anna-operator"`, `""`, `7`} {
		s.must(s.patch("provider", `{"cap":200,"by":`+by+`}`, "If-Match: *"), 422, `"field":"by"`, "leave it out: the token names you")
		s.must(s.ask(http.MethodPost, "limits/provider/pause", `{"by":`+by+`}`), 422, `"field":"by"`)
	}
	s.must(s.get("limits/provider"), 200, `"revision":2`)
	s.must(s.get("limits/provider/history"), 200, "anna-operator from 127.0.0.1")
	// A token does not make a page of another origin a good one.
	if o := s.ask(http.MethodPost, "limits/provider/pause", "", "Origin: http://elsewhere.example"); o.status != http.StatusForbidden {
		t.Errorf("got %d for a page of another origin, want 403: %s", o.status, o.text)
	}
	s.must(s.ask(http.MethodGet, "limits", "", "Host: node-1.example"), 200) // a token says enough
}
