package auth_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/internal/auth"
)

const (
	annasToken = "annas-token-of-some-length"
	bobsToken  = "bobs-token-of-some-length-"
)

// files holds the tokens of anna, an operator, and of bob, a viewer.
type files struct {
	*testing.T

	auth.Settings
}

func newFiles(t *testing.T) files {
	t.Helper()
	dir := t.TempDir()
	f := files{t, auth.Settings{Tokens: []auth.Token{
		{Name: "anna", Role: auth.Operator, File: filepath.Join(dir, "anna")},
		{Name: "bob", Role: auth.Viewer, File: filepath.Join(dir, "bob")},
	}}}
	f.put(0, annasToken+"\n")
	f.put(1, " \t"+bobsToken+"\r\n")
	return f
}

func (f files) put(i int, text string) {
	f.Helper()
	if err := os.WriteFile(f.Tokens[i].File, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
}

// guard is one with a log.
func (f files) guard() (*auth.Guard, *bytes.Buffer) {
	f.Helper()
	var log bytes.Buffer
	g, err := auth.New(auth.Options{Settings: f.Settings, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		f.Fatal(err)
	}
	return g, &log
}

// ask makes a request with headers "name: value", and returns the answer. A request that passes gets the caller's name.
func ask(t *testing.T, g *auth.Guard, method string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://node-1.example/", nil)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if r.Header.Add(name, value); name == "Host" {
			r.Host = value
		}
	}
	w := httptest.NewRecorder()
	g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, known := auth.From(r.Context())
		_, _ = w.Write([]byte(caller.Name + " " + string(caller.Role) + " " + strconv.FormatBool(known)))
	})).ServeHTTP(w, r)
	return w
}

func as(token string) string { return "Authorization: Bearer " + token }

// passes tells whether a token lets a request through.
func passes(t *testing.T, g *auth.Guard, token string) bool {
	t.Helper()
	return ask(t, g, http.MethodGet, as(token)).Code == http.StatusOK
}

func TestWhoMay(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	for _, row := range []struct {
		method  string
		headers []string
		status  int
		body    string
	}{
		{"GET", []string{as(annasToken)}, 200, "anna operator true"},
		{"DELETE", []string{as(annasToken)}, 200, "anna operator true"},
		{"GET", []string{as(bobsToken)}, 200, "bob viewer true"},
		{"GET", []string{"Authorization: bearer " + bobsToken}, 200, "bob viewer true"},
		{"HEAD", []string{as(bobsToken)}, 200, ""},
		{"POST", []string{as(bobsToken)}, 403, "the token of bob may read and change nothing"},
		{"OPTIONS", []string{as(bobsToken)}, 403, `"title":"Forbidden"`},
		{"get", []string{as(bobsToken)}, 403, ""}, // methods have a case
		{"GET", nil, 401, "Authorization: Bearer TOKEN"},
		{"GET", []string{"Authorization: " + annasToken}, 401, "a token is needed"},
		{"GET", []string{"Authorization: Basic " + annasToken}, 401, "a token is needed"},
		{"GET", []string{as(annasToken), as(annasToken)}, 401, "a token is needed"},
		{"GET", []string{as("")}, 401, "is not known"},
		{"GET", []string{as(" " + annasToken)}, 401, "is not known"},
		{"GET", []string{as(annasToken + "\n")}, 401, "is not known"},
		{"GET", []string{as(annasToken[1:])}, 401, "is not known"},
		{"GET", []string{as(strings.ToUpper(annasToken))}, 401, "is not known"},
		{"GET", []string{as(annasToken + "," + bobsToken)}, 401, "is not known"},
		{"GET", []string{as(strings.Repeat("x", 10_000))}, 401, "is not known"},
		{"GET", []string{"X-Api-Key: " + annasToken}, 401, "a token is needed"},
	} {
		g, log := f.guard()
		w := ask(t, g, row.method, row.headers...)
		if w.Code != row.status || !strings.Contains(w.Body.String(), row.body) {
			t.Errorf("%s %q: got %d %s, want %d with %q", row.method, row.headers, w.Code, w.Body, row.status, row.body)
		}
		if got := w.Header().Get("WWW-Authenticate"); (got == "Bearer") != (row.status == http.StatusUnauthorized) {
			t.Errorf("%s %q: got %d with WWW-Authenticate %q", row.method, row.headers, w.Code, got)
		}
		if kind := w.Header().Get("Content-Type"); row.status != http.StatusOK && (kind != "application/problem+json" || !json.Valid(w.Body.Bytes())) {
			t.Errorf("%s %q: got %s %s, want a problem", row.method, row.headers, kind, w.Body)
		}
		if text := w.Body.String() + log.String(); strings.Contains(text, "of-some-length") {
			t.Errorf("%s %q: a token is shown: %s", row.method, row.headers, text)
		}
	}
}

// Without tokens all may do all, on loopback under its names alone.
func TestWithoutTokens(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		loopback bool
		host     string
		status   int
		trusted  bool
	}{
		{true, "localhost:8080", 200, true},
		{true, "LOCALHOST", 200, true},
		{true, "127.0.0.1", 200, true},
		{true, "127.9.9.9:80", 200, true},
		{true, "[::1]:80", 200, true},
		{true, "[::1]", 200, true},
		{true, "elsewhere.example:8080", 421, false},
		{true, "localhost.elsewhere.example", 421, false},
		{true, "10.0.0.7", 421, false},
		{true, "", 421, false},
		{false, "elsewhere.example", 200, false},
		{false, "localhost", 200, false},
	} {
		g, err := auth.New(auth.Options{Loopback: row.loopback})
		if err != nil {
			t.Fatal(err)
		}
		w := ask(t, g, http.MethodPost, "Host: "+row.host)
		if w.Code != row.status || w.Code == http.StatusOK && w.Body.String() != "  false" {
			t.Errorf("%+v: got %d %s", row, w.Code, w.Body)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		if r.Host = row.host; g.Trusts(r) != row.trusted {
			t.Errorf("%+v: got the other trust", row)
		}
	}
}

// A right token passes, whatever wrong ones others send; more than ten of these in a second get another answer.
func TestWrongTokensAreCounted(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	synctest.Test(t, func(t *testing.T) {
		g, _ := f.guard()
		for second := range 3 {
			for i := range 30 {
				want := http.StatusUnauthorized
				if i >= 10 {
					want = http.StatusTooManyRequests
				}
				w := ask(t, g, http.MethodGet, as("wrong"+strconv.Itoa(i)))
				if w.Code != want || (w.Header().Get("Retry-After") == "1") != (i >= 10) {
					t.Errorf("wrong token %d of second %d: got %d, want %d", i, second, w.Code, want)
				}
				if !passes(t, g, annasToken) {
					t.Errorf("a right token was refused after %d wrong ones", i+1)
				}
				if w := ask(t, g, http.MethodGet); w.Code != http.StatusUnauthorized {
					t.Errorf("without a token: got %d, want 401", w.Code)
				}
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(700 * time.Millisecond)
		}
	})
}

// A rotated token is in use after a second at most, and the old one is not.
func TestATokenIsRotated(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	synctest.Test(t, func(t *testing.T) {
		g, log := f.guard()
		const next = "annas-next-token-of-some-length"
		f.put(0, next)
		time.Sleep(time.Second - time.Millisecond)
		if passes(t, g, next) || !passes(t, g, annasToken) {
			t.Error("the file was read within a second of the last time")
		}
		time.Sleep(time.Millisecond)
		if !passes(t, g, next) || passes(t, g, annasToken) || !passes(t, g, bobsToken) {
			t.Error("after a second the new token is not in use, or the old one still is")
		}
		// As Kubernetes does it: another file of the same size and time takes the place.
		info, err := os.Stat(f.Tokens[0].File)
		if err != nil {
			t.Fatal(err)
		}
		third, beside := strings.Replace(next, "next", "last", 1), f.Tokens[0].File+".new"
		if err := os.WriteFile(beside, []byte(third), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(beside, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(beside, f.Tokens[0].File); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if !passes(t, g, third) || passes(t, g, next) {
			t.Error("a file of the same size and time was not read")
		}
		if text := log.String(); strings.Count(text, "admin token changed") != 2 || strings.Contains(text, "length") {
			t.Errorf("got the log %s, want two changes and no token", text)
		}
	})
}

// A file that can't be read keeps the last good token. The log says so once.
func TestABadFileKeepsTheLastGoodToken(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(f files){
		"gone":            func(f files) { _ = os.Remove(f.Tokens[0].File) },
		"empty":           func(f files) { f.put(0, "\n") },
		"short":           func(f files) { f.put(0, "short") },
		"two words":       func(f files) { f.put(0, annasToken+" "+annasToken) },
		"long":            func(f files) { f.put(0, strings.Repeat("x", 1025)) },
		"far too long":    func(f files) { f.put(0, strings.Repeat(" ", 8<<10)) },
		"a directory":     func(f files) { _ = os.Remove(f.Tokens[0].File); _ = os.Mkdir(f.Tokens[0].File, 0o700) },
		"that of another": func(f files) { f.put(0, bobsToken) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFiles(t)
			synctest.Test(t, func(t *testing.T) {
				g, log := f.guard()
				spoil(f)
				for range 3 {
					time.Sleep(time.Second)
					if w := ask(t, g, http.MethodGet, as(annasToken)); w.Code != http.StatusOK || !passes(t, g, bobsToken) {
						t.Errorf("got %d, want the last good token to pass", w.Code)
					}
				}
				if n := strings.Count(log.String(), "could not be read again"); n != 1 {
					t.Errorf("it was logged %d times, want once: %s", n, log)
				}
				const next = "annas-next-token-of-some-length"
				_ = os.Remove(f.Tokens[0].File)
				f.put(0, next)
				time.Sleep(time.Second)
				if !passes(t, g, next) || passes(t, g, annasToken) {
					t.Error("when it is good again, the new token is not in use")
				}
				if text := log.String(); !strings.Contains(text, "can be read again") || strings.Contains(text, "length") {
					t.Errorf("got the log %s, want that it is good again, and no token", text)
				}
			})
		})
	}
}

// Many requests at once, while a file changes, are each served by one token or the other.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	synctest.Test(t, func(t *testing.T) {
		g, _ := f.guard()
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				for second := range 5 {
					if i == 0 {
						f.put(0, "annas-token-number"+strings.Repeat("-", second)) // of another size: the files have the real time
					}
					if !passes(t, g, bobsToken) || passes(t, g, "no-token-of-anybody") {
						t.Error("a request got the answer of another token")
					}
					time.Sleep(time.Second)
				}
			})
		}
		all.Wait()
		if !passes(t, g, "annas-token-number----") {
			t.Error("the last token is not in use")
		}
	})
}

// Two callers may exchange their tokens.
func TestTokensAreExchanged(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	synctest.Test(t, func(t *testing.T) {
		g, _ := f.guard()
		f.put(0, bobsToken)
		f.put(1, annasToken)
		time.Sleep(time.Second)
		if got := ask(t, g, http.MethodGet, as(annasToken)).Body.String(); got != "bob viewer true" {
			t.Errorf("got %q for the token that bob has now", got)
		}
	})
}

func TestBadSettingsAreRefused(t *testing.T) {
	t.Parallel()
	token := func(name string, role auth.Role, file string) auth.Token {
		return auth.Token{Name: name, Role: role, File: file}
	}
	for _, row := range []struct {
		tokens []auth.Token
		want   []string
	}{
		{[]auth.Token{token("", "viewer", "/a")}, []string{`tokens.0.name: "": must be 1 to 64`}},
		{[]auth.Token{token("an na", "viewer", "/a")}, []string{`tokens.0.name: "an na": must be`}},
		{[]auth.Token{token("anna\n", "viewer", "/a")}, []string{`tokens.0.name: "anna\n": must be`}},
		{[]auth.Token{token(strings.Repeat("a", 65), "viewer", "/a")}, []string{`tokens.0.name: `}},
		{[]auth.Token{token("a", "viewer", "/a"), token("a", "viewer", "/b")}, []string{`tokens.1.name: "a": is named twice`}},
		{[]auth.Token{token("a", "admin", "/a")}, []string{`tokens.0.role: "admin": must be one of viewer, operator`}},
		{[]auth.Token{token("a", "", "")}, []string{`tokens.0.role: "": must be`, `tokens.0.file: (hidden): must be the absolute path`}},
		{[]auth.Token{token("a", "viewer", annasToken)}, []string{`tokens.0.file: (hidden)`}},
		{make([]auth.Token, 65), []string{"tokens: 65 entries: must have at most 64"}},
		{[]auth.Token{token("anna.b_c-d@e", "viewer", "/a"), token("B", "operator", "/a")}, nil},
	} {
		err := auth.Settings{Tokens: row.tokens}.Validate()
		if (err == nil) != (row.want == nil) {
			t.Errorf("%+v: got %v, want %q", row.tokens, err, row.want)
		}
		for _, want := range row.want {
			if err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), annasToken)) {
				t.Errorf("%+v: got %v, want %q", row.tokens, err, want)
			}
		}
	}
}

// At start each token must be there. The error names the setting and the file, never a token.
func TestBadFilesAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                      "is empty",
		" \n":                                   "is empty",
		"fifteen-letters":                       "a token of 15 bytes: it must have at least 16",
		strings.Repeat("x", 1025):               "holds more than a token of 1024 bytes",
		annasToken + strings.Repeat("\n", 5000): "holds more than a token of 1024 bytes",
		annasToken + "\t" + annasToken:          "one word of visible ASCII",
		annasToken + "\x00" + annasToken:        "one word of visible ASCII",
		annasToken + "ä":                        "one word of visible ASCII",
		bobsToken:                               "holds the same token as that of bob",
	} {
		f := newFiles(t)
		f.Tokens[0], f.Tokens[1] = f.Tokens[1], f.Tokens[0]
		f.put(1, text)
		g, err := auth.New(auth.Options{Settings: f.Settings})
		if g != nil || err == nil || !strings.Contains(err.Error(), "tokens.1.file: "+strconv.Quote(f.Tokens[1].File)+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: got %v, want %s", text, err, want)
		} else if strings.Contains(err.Error(), "length") {
			t.Errorf("%.30q: got %v, which shows a token", text, err)
		}
	}
	f := newFiles(t)
	_ = os.Remove(f.Tokens[0].File)
	_ = os.Remove(f.Tokens[1].File)
	if _, err := auth.New(auth.Options{Settings: f.Settings}); err == nil || strings.Count(err.Error(), "can't be read: no such file") != 2 {
		t.Errorf("got %v, want both files named", err)
	}
	f.put(0, strings.Repeat("x", 16))
	f.put(1, strings.Repeat("y", 1024))
	if _, err := auth.New(auth.Options{Settings: f.Settings}); err != nil {
		t.Errorf("the shortest and the longest token: %v", err)
	}
}

// Nothing but an exact token passes, and nothing panics.
func FuzzAuthorization(f *testing.F) {
	dir := f.TempDir()
	settings := auth.Settings{}
	tokens := map[string]string{"anna": annasToken, "bob": bobsToken}
	for name, token := range tokens {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			f.Fatal(err)
		}
		settings.Tokens = append(settings.Tokens, auth.Token{Name: name, Role: auth.Viewer, File: file})
	}
	g, err := auth.New(auth.Options{Settings: settings})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		"", "Bearer", "Bearer ", "Bearer " + annasToken, "bEARER " + bobsToken, "Bearer  " + annasToken, "Bearer " + annasToken + " ", "Basic " + annasToken,
		annasToken, "Bearer " + annasToken + "\x00", "Bearer\t" + annasToken, "Bearer " + annasToken + bobsToken, "\u212bearer " + annasToken,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header["Authorization"] = []string{header}
		passed := ""
		w := httptest.NewRecorder()
		g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			caller, _ := auth.From(r.Context())
			passed = caller.Name
		})).ServeHTTP(w, r)
		want := ""
		for name, token := range tokens {
			if len(header) == len("Bearer ")+len(token) && strings.EqualFold(header[:len("Bearer")], "Bearer") && header[len("Bearer"):] == " "+token {
				want = name
			}
		}
		if passed != want || g.Trusts(r) != (want != "") {
			t.Errorf("%q: got %q let through with %d, want %q", header, passed, w.Code, want)
		}
	})
}
