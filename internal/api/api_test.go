package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"dispatcher/configs"
	"dispatcher/internal/api"
	"dispatcher/internal/auth"
	"dispatcher/internal/background"
	"dispatcher/internal/limits"
	"dispatcher/internal/redisclient"
	"dispatcher/throttle"
	"dispatcher/throttle/limit"
)

const file = `
limits:
  - {name: provider, cap: 400, window: 1s, max_step: 4}
  - {name: recipient, key: job.json.to, cap: 5, window: 1s}
`

// served is the API of a fleet of one node, which keeps both limits of the file.
type served struct {
	*testing.T

	url   string
	redis *miniredis.Miniredis
	token string // of the requests; empty: they have none
}

func serve(t *testing.T) served {
	t.Helper()
	return serveTo(t, auth.Options{Loopback: true})
}

// serveTo is serve behind a guard. The API is polled with the first token, if there is one.
func serveTo(t *testing.T, who auth.Options) served {
	t.Helper()
	return serveWith(t, who, api.Options{})
}

// serveWith is serveTo with more than the limits.
func serveWith(t *testing.T, who auth.Options, o api.Options) served {
	t.Helper()
	s := serveNone(t, who, o)
	work(s)
	s.until("the node has seeded both limits", func() bool {
		return s.get("limits/recipient").status == http.StatusOK && len(s.get("nodes").list) == 1
	})
	return s
}

// serveNone is serveWith where no node ever worked.
func serveNone(t *testing.T, who auth.Options, o api.Options) served {
	t.Helper()
	server := miniredis.RunT(t)
	guard, err := auth.New(who)
	if err != nil {
		t.Fatal(err)
	}
	o.Reader = limits.NewReader(config(t), client(t, server))
	web := httptest.NewServer(guard.Handler(api.New(o)))
	t.Cleanup(web.Close)
	s := served{T: t, url: web.URL + "/api/v1/", redis: server}
	if len(who.Tokens) > 0 {
		s.token = tokenIn(t, who.Tokens[0].File)
	}
	return s
}

// work starts the fleet's node.
func work(s served) {
	s.Helper()
	cfg := config(s.T)
	var gates []throttle.Gate
	for _, g := range cfg.Gates() {
		gates = append(gates, throttle.Gate{Name: g.Name, Limit: g.Spec, Keyed: g.Key != ""})
	}
	l, err := throttle.New(throttle.Options{
		Redis: client(s.T, s.redis), Namespace: cfg.Redis.Namespace, Name: "provider", Node: "node-1", Identity: throttle.IdentityNone,
		Limit: cfg.Limits[0].Stated(), Gates: gates,
	})
	if err != nil {
		s.Fatal(err)
	}
	background.Run(s.T, l.Run)
}

// client is one of Redis, which the test closes.
func client(t *testing.T, server *miniredis.Miniredis) redis.UniversalClient {
	t.Helper()
	rdb := redisclient.New(redisclient.Options{Addrs: []string{server.Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// config is that of the file.
func config(t testing.TB) configs.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dispatcher.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := configs.Load(configs.Source{File: path})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// until polls: its deadline is for what hangs.
func (s served) until(what string, so func() bool) {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("not within a minute: %s", what)
		}
	}
}

// outcome is the answer to a request.
type outcome struct {
	status int
	header http.Header
	text   string
	object map[string]any
	list   []any
}

// ask makes a request with headers, "name: value".
func (s served) ask(method, path, body string, headers ...string) (o outcome) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	o = outcome{status: resp.StatusCode, header: resp.Header, text: string(text)}
	if json.Unmarshal(text, &o.object) != nil {
		_ = json.Unmarshal(text, &o.list) // else it is text
	}
	if err := theDocument().checks(method, path, o); err != nil {
		s.Errorf("%s %s: the answer is not as openapi.yaml has it: %v", method, path, err)
	}
	return o
}

func (s served) get(path string) outcome { s.Helper(); return s.ask(http.MethodGet, path, "") }

func (s served) patch(name, body string, headers ...string) outcome {
	s.Helper()
	return s.ask(http.MethodPatch, "limits/"+name, body, headers...)
}

// must checks the status of an answer, and that it holds these texts.
func (s served) must(o outcome, status int, texts ...string) outcome {
	s.Helper()
	if o.status != status {
		s.Errorf("got %d, want %d: %s", o.status, status, o.text)
	}
	for _, text := range texts {
		if !strings.Contains(o.text, text) {
			s.Errorf("got %s, want %q in it", o.text, text)
		}
	}
	return o
}

func TestLimitsAreRead(t *testing.T) {
	t.Parallel()
	s := serve(t)
	o := s.must(s.get("limits/provider"), 200, `"cap":400`, `"window_s":1`, `"in_force":{"nodes":1,"of":1`, `"in_file":true`, `"max_step":4`)
	if tag, kind := o.header.Get("ETag"), o.header.Get("Content-Type"); tag != `"1"` || kind != "application/json" || o.header.Get("Cache-Control") != "no-store" {
		t.Errorf("got tag %s and kind %s of an answer that is kept: %v", tag, kind, o.header)
	}
	s.must(s.get("limits"), 200, `"name":"provider"`, `"name":"recipient"`, `"key":"job.json.to"`)
	s.must(s.get("limits/recipient?key=%2B4670"), 200, `"value":{"hash":"`, `"next_in_s":`)
	s.must(s.get("limits/recipient?key=a&hash=b"), 422, `"field":"hash"`)
	s.must(s.get("limits/other"), 404, `"title":"Not Found"`, "no such limit in Redis")
	s.must(s.get("limits/A"), 422, `"field":"name"`)
	s.must(s.get("nodes"), 200, `"name":"node-1"`, `"missing":false`, `"in_force":true`)
	s.must(s.get("limits/provider/history"), 200, `[]`)
	s.must(s.get("limits/provider/history?n=0"), 422, `"field":"n"`)
	s.must(s.get("elsewhere"), 404)
	s.must(s.ask(http.MethodDelete, "limits/provider", ""), 405)
}

func TestALimitIsChanged(t *testing.T) {
	t.Parallel()
	s := serve(t)
	o := s.must(s.patch("provider?wait=true", `{"cap":300,"why":"the provider asked","by":"ann"}`, `If-Match: "1"`), 200,
		`"cap":300`, `"revision":2`, `"why":"the provider asked"`, `"by":"ann from 127.0.0.1"`, `"in_force":{"nodes":1,"of":1,"after_s":`)
	if tag := o.header.Get("ETag"); tag != `"2"` {
		t.Errorf("got the tag %s of revision 2", tag)
	}
	// The slower one of two operators learns of the other's change.
	s.must(s.patch("provider", `{"cap":200}`, `If-Match: "1"`), 412, `"revision":2`, "ann from 127.0.0.1", "nothing was changed")
	s.must(s.patch("provider", `{"cap":200}`), 428, "If-Match")
	s.must(s.patch("provider", `{"cap":200}`, `If-Match: 2`), 412, "in quotes")
	s.must(s.patch("provider", `{"cap":301,"window":"1s","for":"10m"}`, `If-Match: *`), 200, `"cap":301`, `"revert_at":"20`, `"revert_to":{`)
	s.must(s.patch("provider", `{"cap":301}`, `If-Match: *`), 200, `"cap":301`)
	s.must(s.ask(http.MethodPost, "limits/provider/pause", `{"for":"15m","why":"maintenance"}`), 200, `"paused":true`, `"revert_in_s":`)
	s.must(s.ask(http.MethodPost, "limits/provider/resume", ""), 200, `"paused":false`)
	s.must(s.ask(http.MethodPost, "limits/provider/undo", `{"to":2}`), 200, `"cap":300`)
	s.must(s.ask(http.MethodPost, "limits/provider/undo", `{"to":77}`), 409, "the history does not hold it; nothing was changed")
	s.must(s.get("limits/provider/history?n=1"), 200, `"undo: back to revision 2"`, "api from 127.0.0.1")
	s.must(s.ask(http.MethodPost, "limits/provider/undo", `{"to":3}`, `If-Match: "1"`), 412, "nothing was changed")
	s.must(s.ask(http.MethodPost, "limits/provider/release", `{}`), 200, `"cap":300`)
	s.must(s.ask(http.MethodPost, "limits/recipient/release", `{}`), 422, "name the value")
	s.must(s.ask(http.MethodPost, "limits/recipient/release", `{"key":"+4670"}`), 200, `"value":{"hash"`)
}

// Who decided to take a change back does not take back another one that was made meanwhile.
func TestLawAnUndoIsOfTheChangeThatItWasMeantFor(t *testing.T) {
	t.Parallel()
	s := serve(t)
	undo := func(headers ...string) outcome {
		return s.ask(http.MethodPost, "limits/provider/undo", `{"by":"bert"}`, headers...)
	}
	s.must(s.patch("provider", `{"cap":300,"by":"anna"}`, `If-Match: *`), 200)
	s.must(s.patch("provider", `{"cap":200,"by":"carla"}`, `If-Match: "2"`), 200)
	s.must(undo(`If-Match: "2"`), 412, `"revision":3`, "carla from 127.0.0.1", "nothing was changed")
	s.must(undo(), 428, "If-Match")
	s.must(undo(`If-Match: 3`), 412, "in quotes")
	s.must(s.get("limits/provider"), 200, `"revision":3`, `"cap":200`)
	s.must(undo(`If-Match: "3"`), 200, `"cap":300`, `"by":"bert from 127.0.0.1"`)
	s.must(undo(`If-Match: *`), 200, `"cap":400`)
	s.must(s.patch("provider", `{"cap":200,"for":"1h","by":"carla"}`, `If-Match: *`), 200)
	s.must(s.patch("provider", `{"cap":250,"by":"carla"}`, `If-Match: *`), 200)
	s.must(undo(`If-Match: "5"`), 412, `"revision":7`, "nothing was changed") // before any reason against another undo
	s.must(undo(`If-Match: "7"`), 409, "was an override")
}

// What can't be honoured is refused with the field, the value and the remedy, and changes nothing.
func TestBadChangesAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, row := range []struct {
		body   string
		status int
		wants  []string
	}{
		{`{"cap":0}`, 422, []string{`"field":"cap"`, `"value":"0"`, `"remedy":"must be`}},
		{`{"cap":"many","window":7}`, 422, []string{`"field":"cap"`, `"value":"many"`, `"field":"window"`}},
		{`{"cap":5000}`, 422, []string{"max_step: from 396", `\"force\": true passes it`, `"refused":"max_step: from 396`}},
		{`{"cap":5000,"force":"yes"}`, 422, []string{`"field":"force"`, "must be true or false"}},
		{`{"cpa":5}`, 422, []string{`"field":"cpa"`, "is no setting of a limit"}},
		{`{"cap":{"of":5}}`, 422, []string{`"field":"cap"`, "must be a number, true or false, or text"}},
		{`{"cap":300,"for":"soon"}`, 422, []string{`"field":"for"`, `"value":"soon"`}},
		{`{"cap":300,"for":"-5m"}`, 422, []string{`"field":"for"`}},
		{`{"cap":300,"for":7}`, 422, []string{`"field":"for"`, "must be text"}},
		{`{"cap":300,"why":"` + strings.Repeat("x", 300) + `"}`, 422, []string{`"field":"why"`}},
		{`{"cap":300,"by":"` + strings.Repeat("x", 300) + `"}`, 422, []string{`"field":"by"`}},
		{`{"cap":300,"why":"asked\u001b[2J"}`, 422, []string{`"field":"why"`, `"value":"\"asked\\x1b[2J\""`, "must have no control characters"}},
		{`{"cap":300,"by":"ann\nroot"}`, 422, []string{`"field":"by"`, `"value":"\"ann\\nroot\""`, "must have no control characters"}},
		{`{"why":"no setting"}`, 422, []string{"names no setting"}},
		{``, 422, []string{"names no setting"}},
		{`null`, 400, []string{"must be a JSON object"}},
		{`[1]`, 400, []string{"must be a JSON object"}},
		{`{"cap":300`, 400, []string{"must be a JSON object"}},
		{`{"why":"` + strings.Repeat("x", 70<<10) + `"}`, 413, []string{"at most 65536 bytes"}},
	} {
		o := s.must(s.patch("provider", row.body, "If-Match: *"), row.status, row.wants...)
		if kind := o.header.Get("Content-Type"); kind != "application/problem+json" {
			t.Errorf("%.40s: got %s, want a problem", row.body, kind)
		}
	}
	s.must(s.ask(http.MethodPost, "limits/provider/pause", `{"cap":3}`), 422, `"field":"cap"`, "is unknown here")
	s.must(s.ask(http.MethodPost, "limits/provider/release", `{"for":"1h"}`), 422, `"field":"for"`, "is unknown here")
	s.must(s.ask(http.MethodPost, "limits/provider/undo", `{"to":"x"}`), 422, `"field":"to"`, "must be a whole number")
	s.must(s.get("limits/provider"), 200, `"revision":1`)
}

// Neither a page of another origin nor one that points its own name to loopback changes anything.
func TestOtherOriginsChangeNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	pause := func(headers ...string) outcome {
		return s.ask(http.MethodPost, "limits/provider/pause", "", headers...)
	}
	if o := pause("Sec-Fetch-Site: cross-site"); o.status != 403 {
		t.Errorf("got %d for a page of another site, want 403: %s", o.status, o.text)
	}
	if o := pause("Origin: http://elsewhere.example"); o.status != 403 {
		t.Errorf("got %d for a page of another origin, want 403: %s", o.status, o.text)
	}
	s.must(pause("Host: elsewhere.example:8080"), 421, "loopback alone")
	s.must(s.ask(http.MethodGet, "limits", "", "Host: elsewhere.example"), 421)
	s.must(s.get("limits/provider"), 200, `"paused":false`)
	for _, host := range []string{"localhost:8080", "LOCALHOST", "127.0.0.1", "[::1]:80"} {
		s.must(s.ask(http.MethodGet, "limits", "", "Host: "+host), 200)
	}
}

// Without Redis the answer says so, and nothing hangs.
func TestRedisIsAway(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.redis.SetError("ERR the disk is full")
	defer s.redis.SetError("")
	for _, path := range []string{"limits", "limits/provider", "limits/provider/history", "nodes"} {
		s.must(s.get(path), 503, `"status":503`, "the disk is full")
	}
	s.must(s.patch("provider", `{"cap":300}`, "If-Match: *"), 503, "the disk is full")
}

// fails has Redis answer a command with an error, where no script calls it.
func (s served) fails(failing string) {
	s.redis.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
		if command == failing {
			c.WriteError("ERR away")
		}
		return command == failing
	})
}

// Redis that fails right after a change has made it: the answer says so, for who repeats the request gets 412.
func TestLawAProblemAfterAChangeNamesItsRevision(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.fails("HGETALL")
	s.must(s.patch("provider", `{"cap":300}`, `If-Match: "1"`), 503, "revision 2 is set, but the limit could not be read after that: ", "away")
	now := time.Now().UnixMicro()
	slow := limit.Slowdown{Number: now, Since: now, Units: 20, Effective: 200, Window: 1_000_000, Slowed: now, Why: "a test"}
	s.redis.HSet("dispatcher:{default}:limit:provider", "slowdown", slow.Pack())
	s.must(s.ask(http.MethodPost, "limits/provider/release", ""), 503, "is released, but could not be read after that: ")
	if again := s.must(s.ask(http.MethodPost, "limits/provider/release", ""), 503); strings.Contains(again.text, "is released") {
		t.Errorf("got %s where there was nothing to release", again.text)
	}
}

// Blocks by the provider, each an event, do not hide the changes from who asks for these alone.
func TestLawEventsHideNoChange(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.must(s.patch("provider", `{"cap":300}`, `If-Match: "1"`), 200)
	const later = 4_000_000_000_000 // ms: after all changes
	for i := range 25 {
		if _, err := s.redis.XAdd("dispatcher:{default}:events:provider", fmt.Sprint(later+i, "-0"), []string{"event", "blocked", "by", "node-1"}); err != nil {
			t.Fatal(err)
		}
	}
	if o := s.must(s.get("limits/provider/history"), 200, "blocked"); strings.Contains(o.text, "revision") {
		t.Errorf("got %s, want the newest lines, which are events", o.text)
	}
	if o := s.must(s.get("limits/provider/history?only=changes"), 200, `"revision":2`); strings.Contains(o.text, "blocked") {
		t.Errorf("got %s, want changes alone", o.text)
	}
	s.must(s.get("limits/provider/history?only=all"), 422, `"field":"only"`)
}

// Requests that are too many are refused, and do not wait.
func TestTooManyRequestsAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var open []net.Conn
	release := func() {
		for _, conn := range open {
			_ = conn.Close()
		}
	}
	defer release()
	s.until("a request is refused", func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.Split(s.url, "/")[2])
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
		_, _ = fmt.Fprint(conn, "POST /api/v1/limits/provider/pause HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n") // and no body
		return s.get("nodes").status == http.StatusServiceUnavailable
	})
	if len(open) < 16 {
		t.Errorf("a request is refused while %d are being served, want 16", len(open))
	}
	release()
	s.until("requests are served again", func() bool { return s.get("nodes").status == http.StatusOK })
}
