package page_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"dispatcher/internal/page"
	"dispatcher/throttle/limit/parameters"
)

func get(t *testing.T, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	page.Handler().ServeHTTP(w, r)
	return w
}

func TestFilesHaveTheirTypeAndThePolicy(t *testing.T) {
	t.Parallel()
	for path, kind := range map[string]string{
		"/":                                "text/html; charset=utf-8",
		"/static/page.js":                  "text/javascript; charset=utf-8",
		"/static/page.css":                 "text/css; charset=utf-8",
		"/static/icon.svg":                 "image/svg+xml",
		"/static/uplot/LICENSE":            "text/plain; charset=utf-8",
		"/static/uplot/uPlot.iife.min.js":  "text/javascript; charset=utf-8",
		"/static/uplot/uPlot.min.css?v=16": "text/css; charset=utf-8",
	} {
		got := get(t, path)
		if got.Code != http.StatusOK || got.Header().Get("Content-Type") != kind || got.Body.Len() == 0 {
			t.Errorf("%s: got %d %s and %d bytes, want 200 %s", path, got.Code, got.Header().Get("Content-Type"), got.Body.Len(), kind)
		}
		policy := got.Header().Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'", "form-action 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: got the policy %q, want %s in it", path, policy, want)
			}
		}
		if got.Header().Get("X-Content-Type-Options") != "nosniff" || got.Header().Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: got the headers %v, want nosniff and no-referrer", path, got.Header())
		}
		same := get(t, path, "If-None-Match: "+got.Header().Get("ETag"))
		if same.Code != http.StatusNotModified || same.Body.Len() != 0 {
			t.Errorf("%s: got %d for the same entity tag, want 304", path, same.Code)
		}
	}
	for _, path := range []string{"/other", "/static/", "/static/../page.go", "/static/index.html/", "/index.html"} {
		if got := get(t, path); got.Code != http.StatusNotFound {
			t.Errorf("%s: got %d, want 404", path, got.Code)
		}
	}
}

func TestThePageIsOnlyRead(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	page.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("got %d, Allow %q, want 405 and GET, HEAD", w.Code, w.Header().Get("Allow"))
	}
}

// What the page names is there, and nothing in it needs another policy or puts text in as HTML.
func TestSourcesKeepThePolicy(t *testing.T) {
	t.Parallel()
	names := regexp.MustCompile(`(?:src|href)="(/[^"]*)"|from '\./([^']+)'|import '\./([^']+)'`)
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|localStorage|\bstyle="|\son\w+="|<style|https?://`)
	err := filepath.WalkDir("static", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.Name() == "uplot" {
				return filepath.SkipDir
			}
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if found := forbidden.FindString(strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", "")); found != "" {
			t.Errorf("%s has %q", path, found)
		}
		for _, m := range names.FindAllStringSubmatch(string(text), -1) {
			target := m[1]
			if target == "" {
				target = "/static/" + m[2] + m[3]
			}
			if got := get(t, target); got.Code != http.StatusOK {
				t.Errorf("%s names %s: got %d, want 200", path, target, got.Code)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The page notices a change of a setting only if text.js names it.
func TestEachSettingThatCanChangeHasAName(t *testing.T) {
	t.Parallel()
	text := get(t, "/static/text.js").Body.String()
	_, names, _ := strings.Cut(text, "const settingNames = {")
	names, _, ok := strings.Cut(names, "};")
	if !ok {
		t.Fatal("got no settingNames in text.js")
	}
	got := map[string]bool{}
	for _, m := range regexp.MustCompile(`(\w+): '`).FindAllStringSubmatch(names, -1) {
		got[m[1]] = true
	}
	want := map[string]bool{"guard_auto": true}
	for _, p := range parameters.All {
		if p.Kind != parameters.Fixed {
			want[p.Shown()] = true
		}
	}
	for name := range want {
		if !got[name] {
			t.Errorf("settingNames in static/text.js lacks %s: add what the page calls it", name)
		}
	}
	for name := range got {
		if !want[name] {
			t.Errorf("settingNames in static/text.js has %s, which is no setting that can change", name)
		}
	}
}
