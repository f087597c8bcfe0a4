package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"dispatcher/consumer/deadletter"
	"dispatcher/internal/api"
	"dispatcher/internal/audit"
	"dispatcher/internal/auth"
	"dispatcher/internal/figures"
	"dispatcher/internal/loglevel"
	"dispatcher/internal/why"
	"dispatcher/throttle/limit/parameters"
)

// described is the OpenAPI document, to check answers by.
type described struct {
	doc map[string]any

	mu      sync.Mutex // of the compiler
	schemas *jsonschema.Compiler
}

// theDocument is read once. Its schemas are strict: a member that an answer has and the document has not is an error.
var theDocument = sync.OnceValue(func() *described {
	text, err := api.Document()
	if err != nil {
		panic(err)
	}
	read, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		panic(err)
	}
	d := &described{doc: read.(map[string]any), schemas: jsonschema.NewCompiler()}
	shared := map[string]bool{}
	each(d.doc, "#", func(_ string, o map[string]any) {
		all, _ := o["allOf"].([]any)
		for _, part := range all {
			ref, _ := part.(map[string]any)["$ref"].(string)
			shared[ref] = true
		}
	})
	each(d.doc, "#", func(at string, o map[string]any) {
		_, open := o["additionalProperties"]
		if o["type"] == "object" && !open && !shared[at] {
			o["unevaluatedProperties"] = false
		}
	})
	d.schemas.DefaultDraft(jsonschema.Draft2020)
	d.schemas.AssertFormat()
	if err := d.schemas.AddResource("openapi.json", d.doc); err != nil {
		panic(err)
	}
	return d
})

// each visits all objects of a document with their JSON pointers.
func each(v any, at string, visit func(string, map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		visit(at, v)
		for name, member := range v {
			each(member, at+"/"+escaped(name), visit)
		}
	case []any:
		for i, member := range v {
			each(member, fmt.Sprint(at, "/", i), visit)
		}
	}
}

func escaped(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// at is what a pointer, or the reference that stands there, names; nil: nothing.
func (d *described) at(pointer string) (found map[string]any, where string) {
	var v any = d.doc
	for _, name := range strings.Split(pointer, "/")[1:] {
		m, _ := v.(map[string]any)
		v = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
	}
	found, _ = v.(map[string]any)
	if ref, is := found["$ref"].(string); is {
		return d.at(ref)
	}
	return found, pointer
}

func (d *described) validate(pointer string, text []byte) error {
	d.mu.Lock()
	schema, err := d.schemas.Compile("openapi.json" + strings.NewReplacer("{", "%7B", "}", "%7D").Replace(pointer))
	d.mu.Unlock()
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

// operations are those of the document, as [api.Patterns] has them.
func (d *described) operations() (all []string) {
	for path, item := range d.doc["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			if method != "parameters" {
				all = append(all, strings.ToUpper(method)+" /api/v1"+path)
			}
		}
	}
	slices.Sort(all)
	return all
}

// patternOf is the pattern of a request; empty: it has none.
func patternOf(method, path string) string {
	path, _, _ = strings.Cut(path, "?")
	mux := http.NewServeMux()
	for _, p := range api.Patterns() {
		mux.Handle(p, http.NotFoundHandler())
	}
	r, err := http.NewRequest(method, "/api/v1/"+path, nil) //nolint:noctx // is not made
	if err != nil {
		return ""
	}
	_, pattern := mux.Handler(r)
	return pattern
}

// checks compares an answer with the document.
func (d *described) checks(method, path string, o outcome) error {
	pattern := patternOf(method, path)
	kind, _, _ := strings.Cut(o.header.Get("Content-Type"), ";")
	switch {
	case method == http.MethodHead:
		return nil // has no body
	case pattern == "" || o.status == http.StatusForbidden || o.status == http.StatusUnauthorized:
		if kind != "application/problem+json" || o.status < 400 {
			return fmt.Errorf("got %d of type %q, want a problem", o.status, kind)
		}
		return d.validate("#/components/schemas/Problem", []byte(o.text))
	}
	method, path, _ = strings.Cut(pattern, " /api/v1")
	response, where := d.at(fmt.Sprintf("#/paths/%s/%s/responses/%d", escaped(path), strings.ToLower(method), o.status))
	if response == nil {
		return fmt.Errorf("%s: the document has no answer with the status %d", pattern, o.status)
	}
	if content, _ := d.at(where + "/content/" + escaped(kind)); content == nil {
		return fmt.Errorf("%s: the document has no answer %d of type %q", pattern, o.status, kind)
	}
	headers, _ := response["headers"].(map[string]any)
	for name := range headers {
		header, in := d.at(where + "/headers/" + name)
		value, err := json.Marshal(o.header.Get(name))
		if header["schema"].(map[string]any)["type"] == "integer" {
			value = []byte(o.header.Get(name))
		}
		if err == nil {
			err = d.validate(in+"/schema", value)
		}
		if err != nil {
			return fmt.Errorf("%s: header %s: %w", pattern, name, err)
		}
	}
	if err := d.validate(where+"/content/"+escaped(kind)+"/schema", []byte(o.text)); err != nil {
		return fmt.Errorf("%s: %d: %w\n%s", pattern, o.status, err, o.text)
	}
	return nil
}

func TestTheDocumentHasEachRequest(t *testing.T) {
	t.Parallel()
	has, served := theDocument().operations(), api.Patterns()
	slices.Sort(served)
	for _, pattern := range served {
		if !slices.Contains(has, pattern) {
			t.Errorf("openapi.yaml lacks %s", pattern)
		}
	}
	for _, pattern := range has {
		if !slices.Contains(served, pattern) {
			t.Errorf("openapi.yaml has %s, which the server does not serve", pattern)
		}
	}
}

// A request with a method that a path does not take learns the ones that it takes.
func TestEachPathSaysWhichMethodsItTakes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for path, item := range theDocument().doc["paths"].(map[string]any) {
		var want []string
		for method := range item.(map[string]any) {
			if method != "parameters" {
				want = append(want, strings.ToUpper(method))
			}
			if method == "get" {
				want = append(want, http.MethodHead)
			}
		}
		switch path {
		case "/rules/history", "/rules/preview":
			want = append(want, http.MethodDelete) // they lie where a rule could lie
		}
		o := s.ask(http.MethodOptions, strings.NewReplacer("{name}", "provider", "{id}", "1").Replace(path[1:]), "")
		if got := o.header.Get("Allow"); o.status != http.StatusMethodNotAllowed || got != strings.Join(sorted(want), ", ") {
			t.Errorf("%s: got %d and %q, want %v", path, o.status, got, want)
		}
	}
}

// The settings of a limit are those of parameters.All, wherever the document lists them.
func TestTheDocumentHasEachSetting(t *testing.T) {
	t.Parallel()
	properties := func(schema string) []string {
		found, _ := theDocument().at("#/components/schemas/" + schema + "/properties")
		return slices.Sorted(maps.Keys(found))
	}
	var changed, shown []string
	for _, p := range parameters.All {
		if p.Kind != parameters.Fixed {
			changed = append(changed, p.Name)
		}
		shown = append(shown, p.Shown())
	}
	if got := properties("LimitSettings"); !slices.Equal(got, sorted(changed)) {
		t.Errorf("the schema LimitSettings of openapi.yaml has %v, want %v", got, sorted(changed))
	}
	if got, want := properties("LimitChange"), sorted(slices.Concat(changed, properties("Change"))); !slices.Equal(got, want) {
		t.Errorf("the schema LimitChange of openapi.yaml has %v, want %v", got, want)
	}
	if got, want := sorted(slices.Concat(properties("Terms"), properties("Guardrails"))), sorted(append(shown, "gate", "guard_auto")); !slices.Equal(got, want) {
		t.Errorf("the schemas Terms and Guardrails of openapi.yaml have %v, want %v", got, want)
	}
}

func sorted(all []string) []string {
	slices.Sort(all)
	return all
}

func TestTheDocumentHasTheServersBounds(t *testing.T) {
	t.Parallel()
	for pointer, want := range map[string]int{
		"#/components/parameters/lines/schema maximum":               api.MostLines,
		"#/paths/~1calls/get/parameters/0/schema maximum":            figures.MostSeconds,
		"#/paths/~1why/get/parameters/0/schema maxLength":            api.MaxJob,
		"#/paths/~1limits~1{name}/get/parameters/0/schema maxLength": api.MaxKey,
		"#/components/schemas/Change/properties/by maxLength":        audit.MostBy,
		"#/components/schemas/LimitChange/properties/by maxLength":   audit.MostBy,
		"#/components/schemas/Signature/properties/by maxLength":     audit.MostBy,
		"#/components/schemas/Signature/properties/why maxLength":    audit.MostWhy,
		"#/components/schemas/NewRedrive/properties/by maxLength":    audit.MostBy,
	} {
		at, name, _ := strings.Cut(pointer, " ")
		var got any
		each(theDocument().doc, "#", func(p string, o map[string]any) {
			if p == at {
				got = o[name]
			}
		})
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: the document has %v, want %d", pointer, got, want)
		}
	}
}

// Each request has an answer that is good and one that is a problem, both as the document has them. [served.ask] compares each
// answer, of all tests.
func TestEachAnswerIsAsTheDocumentHasIt(t *testing.T) {
	t.Parallel()
	s := serveWith(t, auth.Options{Loopback: true}, api.Options{
		Redrives: &runs{}, DeadLetters: &letters{all: []deadletter.Letter{letter(1, "permanent")}},
		Level: loglevel.New(slog.LevelInfo), Node: "node-1",
	})
	s.says(busy())
	until := time.Now()
	s.holds(why.Job{
		ID: "a", Topic: "jobs", Lane: "default", WaitsFor: "order", Text: "an earlier job of its key or partition", Why: "another goes first",
		Behind: &why.Job{ID: "b", Topic: "jobs", Lane: "default", WaitsFor: "limit", Text: "a limit", Why: "it is used up", Until: &until, Limit: "recipient", Ahead: 1, Calls: 2},
	})
	seen := map[string]map[bool]bool{}
	ask := func(good bool, method, path, body string, headers ...string) {
		t.Helper()
		o := s.ask(method, path, body, headers...)
		if o.status/100 == 2 != good {
			t.Errorf("%s %s: got %d, want a good answer: %v: %s", method, path, o.status, good, o.text)
		}
		pattern := patternOf(method, path)
		if seen[pattern] == nil {
			seen[pattern] = map[bool]bool{}
		}
		seen[pattern][good] = true
	}
	const twice = "?n=1&n=2"
	for _, path := range []string{
		"limits", "overview", "health", "nodes", "lanes", "topics", "keys", "calls?seconds=5", "forecast?cap=100", "rules", "rules/history",
		"openapi.json", "limits/provider", "limits/recipient?key=a", "limits/provider/history", "why?limit=provider", "why?job=a", "rules/preview?when=true",
		"dead-letters?limit=2", "redrives", "redrives/r-1", "redrives/history?n=3", "log",
	} {
		ask(true, http.MethodGet, path, "")
		base, _, _ := strings.Cut(path, "?")
		ask(false, http.MethodGet, base+twice, "")
		ask(false, http.MethodGet, base+"?n=%zz", "")
	}
	const post, yes = http.MethodPost, true
	ask(yes, http.MethodPatch, "limits/provider", `{"cap":300,"for":"10m","why":"less"}`, `If-Match: "1"`)
	ask(false, http.MethodPatch, "limits/provider", `{"cap":300}`)
	ask(yes, post, "limits/provider/pause", `{"for":"15m"}`)
	ask(yes, post, "limits/provider/resume", `{"why":"on"}`)
	ask(yes, post, "limits/provider/undo", `{"for":"5m"}`, `If-Match: *`) // the pause had an end
	ask(false, post, "limits/provider/undo", `{}`)
	ask(yes, post, "limits/provider/release", `{}`)
	ask(yes, post, "limits/recipient/release", `{"key":"a"}`)
	ask(yes, http.MethodPatch, "limits/recipient", `{"exceptions":"`+strings.Repeat("0a", 16)+`=7"}`, `If-Match: *`)
	ask(yes, http.MethodGet, "limits/recipient?hash="+strings.Repeat("0a", 16), "")
	for _, path := range []string{"pause", "resume", "undo", "release"} {
		ask(false, post, "limits/provider/"+path, `{"colour":"red"}`)
		ask(false, post, "limits/other/"+path, ``)
	}
	for _, verb := range []string{"replay", "drop"} {
		ask(yes, post, "dead-letters/"+verb, `{"class":["cancelled"],"why":"right again"}`)
		ask(false, post, "dead-letters/"+verb, `{}`)
	}
	ask(yes, http.MethodPut, "log", `{"level":"debug","for":"10m","why":"a job is stuck"}`)
	ask(yes, http.MethodGet, "log", "")
	ask(false, http.MethodPut, "log", `{"level":"loud"}`)
	ask(yes, post, "redrives/r-1/stop", `{}`)
	ask(false, post, "redrives/r-7/stop", `{}`)
	ask(yes, post, "rules", `{"kind":"hold","when":"true","for":"1h","why":"wait"}`)
	ask(false, post, "rules", `{"kind":"stop","when":"true","for":"1h"}`)
	ask(yes, http.MethodGet, "rules", "")
	ask(yes, http.MethodDelete, "rules/1?wait=true", `{"why":"go on"}`)
	ask(false, http.MethodDelete, "rules/1", ``)
	ask(yes, http.MethodGet, "rules/history?n=1", "")
	ask(yes, http.MethodGet, "limits/provider/history?n=1000", "")
	for _, pattern := range api.Patterns() {
		if strings.HasSuffix(pattern, "/events") {
			continue // TestPagesGetTheFleetsStateAsItChanges
		}
		if !seen[pattern][true] || !seen[pattern][false] {
			t.Errorf("%s: got answers %v, want a good one and a problem", pattern, seen[pattern])
		}
	}
}

// What the document refuses the server refuses, and says so by a problem. Nothing is changed.
func TestOddRequestsAreProblems(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, row := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "elsewhere", "", 404, "there is no such path"},
		{"GET", "limits/", "", 404, "there is no such path"},
		{"POST", "limits//pause", "", 404, "there is no such path"},
		{"POST", "limits/provider/../provider/pause", "", 404, "there is no such path"},
		{"GET", "limits/%2e%2e/nodes", "", 404, "there is no such path"},
		{"GET", "limits/%00", "", 422, `"field":"name"`},
		{"GET", "limits/" + strings.Repeat("a", 64), "", 422, `"field":"name"`},
		{"GET", "limits/%ff%fe", "", 422, `"field":"name"`},
		{"DELETE", "limits/provider", "", 405, "this path takes GET, HEAD, PATCH"},
		{"POST", "events", "", 405, "this path takes GET, HEAD"},
		{"GET", "limits/provider/pause", "", 405, "this path takes POST"},
		{"OPTIONS", "limits", "", 405, "this path takes GET, HEAD"},
		{"BREW", "limits", "", 405, "this path takes GET, HEAD"},
		{"POST", "limits/provider/pause?wait=yes", "", 422, `"field":"wait"`},
		{"POST", "limits/provider/pause?wait=", "", 422, `"field":"wait"`},
		{"POST", "limits/provider/release?wait=1", "", 422, `"field":"wait"`},
		{"POST", "rules?wait=1", `{"kind":"hold","when":"true","for":"1h"}`, 422, `"field":"wait"`},
		{"POST", "limits/provider/pause?wait=true&wait=false", "", 422, `"field":"wait","value":"true","remedy":"is stated 2 times`},
		{"POST", "limits/provider/pause?wait=%zz", "", 400, "can't be read"},
		{"GET", "limits/recipient?key=", "", 422, `"field":"key"`},
		{"GET", "limits/recipient?hash=", "", 422, `"field":"hash"`},
		{"GET", "limits/recipient?key=" + strings.Repeat("a", 1025), "", 422, `"field":"key"`},
		{"GET", "calls?seconds=", "", 422, `"field":"seconds"`},
		{"GET", "calls?seconds=99999999999999999999", "", 422, `"field":"seconds"`},
		{"GET", "calls?seconds=1;n=2", "", 400, "can't be read"},
		{"GET", "forecast?cap=1&cap=2", "", 422, `"field":"cap"`},
		{"GET", "why?limit=No%00", "", 422, `"field":"limit"`},
		{"GET", "why?job=" + strings.Repeat("a", 2049), "", 422, `"field":"job"`},
		{"PATCH", "limits/provider", `{"weights":null}`, 422, `"field":"weights"`},
		{"PATCH", "limits/provider", `{"cap":300,"why":null}`, 422, `"field":"why"`},
		{"PATCH", "limits/provider", `{"cap":1e400}`, 422, `"field":"cap"`},
		{"PATCH", "limits/provider", `{"cap":99999999999999999999}`, 422, `"field":"cap"`},
		{"PATCH", "limits/provider", `{"max_step":"NaN","force":true}`, 422, `"field":"max_step"`},
		{"PATCH", "limits/provider", `{"window":"9999999h","force":true}`, 422, `"field":"window"`},
		{"PATCH", "limits/provider", strings.Repeat(`{"a":`, 11000), 400, "JSON object"},
		{"POST", "rules", `{"kind":"hold","when":null,"for":"1h"}`, 422, `"field":"when"`},
		{"POST", "rules", `{"kind":"hold","when":"true","until":"9999999999999"}`, 422, `"field":"until"`},
		{"DELETE", "rules/%00", "", 404, "no such rule"},
	} {
		o := s.must(s.ask(row.method, row.path, row.body, "If-Match: *"), row.status, row.want)
		if o.status == 405 && o.header.Get("Allow") == "" {
			t.Errorf("%s %s: got no header Allow", row.method, row.path)
		}
	}
	if o := s.ask(http.MethodHead, "limits/provider", ""); o.status != http.StatusOK || o.text != "" || o.header.Get("ETag") != `"1"` {
		t.Errorf("HEAD: got %d %q %v, want the header alone", o.status, o.text, o.header)
	}
	s.must(s.get("limits/provider"), 200, `"revision":1`, `"paused":false`)
	s.must(s.get("rules"), 200, `"rules":[]`)
}
