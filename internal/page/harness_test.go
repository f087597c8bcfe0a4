package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/redis/go-redis/v9"

	"dispatcher/admin"
	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/consumer/dlq"
	"dispatcher/internal/api"
	"dispatcher/internal/auth"
	"dispatcher/internal/background"
	"dispatcher/internal/embedded"
	"dispatcher/internal/limits"
	"dispatcher/internal/node"
	"dispatcher/internal/page"
	"dispatcher/internal/problem"
	"dispatcher/internal/provider"
	"dispatcher/internal/redisclient"
	"dispatcher/internal/redrive"
	"dispatcher/job"
)

// chromium is the path of a browser. Without one the test is skipped, or fails where the environment demands one.
func chromium(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a browser, and runs a fleet: left out by -short")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const lacks = "no Chromium was found in PATH: install chromium, or leave this test out with -short"
	if os.Getenv("DISPATCHER_REQUIRE_BROWSER") == "1" {
		t.Fatal(lacks)
	}
	t.Skip(lacks)
	return ""
}

const fleetFile = `
limits:
  - {name: provider, cap: 300, window: 1s, max_step: 4}
  - {name: recipient, key: job.json.to, cap: 5, window: 1s}
kafka:
  lanes:
    - {name: codes, topics: [codes]}
    - {name: bulk, topics: [jobs], min_share: 0.1}
`

// site is an embedded fleet of three nodes with the page, as the admin server of a node serves it.
type site struct {
	*testing.T

	url   string
	parts *embedded.Parts
	down  atomic.Bool // the API answers nothing
	open  sync.Map    // what ends each request
}

// newSite has the API ask for a token where some are given.
func newSite(t *testing.T, jobs int, tokens ...auth.Token) *site {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dispatcher.yaml")
	if err := os.WriteFile(file, []byte(fleetFile), 0o600); err != nil {
		t.Fatal(err)
	}
	parts, err := embedded.New(embedded.Options{File: file, MoreTopics: []string{"codes"}, Provider: provider.Options{Behaviour: usual}})
	if err != nil {
		t.Fatal(err)
	}
	if err := parts.Provider.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	background.Run(t, parts.Run)
	s := &site{T: t, parts: parts}
	s.enqueue("jobs", jobs)
	s.enqueue("codes", 20)
	settings := []string{"kafka.topics="} // the lanes have them
	fleet, err := embedded.NewFleet(parts, 3, slog.New(slog.DiscardHandler), settings...)
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, fleet.Run)
	cfg, err := parts.Config(settings...)
	if err != nil {
		t.Fatal(err)
	}
	rdb := redisclient.New(redisclient.Options{Addrs: []string{parts.RedisAddr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	server, err := admin.New(admin.Options{
		Config: admin.Config{Listen: "127.0.0.1:0", Auth: auth.Settings{Tokens: tokens}},
		API:    s.away(api.New(s.options(cfg, rdb))), Page: page.Handler(),
	})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, server.Run)
	s.url = "http://" + server.Addr()
	return s
}

// options serve what a node serves, redrives among it.
func (s *site) options(cfg configs.Config, rdb redis.UniversalClient) api.Options {
	s.Helper()
	log := slog.New(slog.DiscardHandler)
	conn, err := node.KafkaConnection(cfg, log)
	if err != nil {
		s.Fatal(err)
	}
	o := dlq.Options{Connection: conn, Group: cfg.Kafka.Group}
	letters, err := dlq.New(o)
	if err != nil {
		s.Fatal(err)
	}
	redrives := redrive.New(redrive.Options{
		Store: redrive.NewStore(rdb, cfg.Redis.Namespace), Runner: redrive.Kafka(o), Node: "node-1", Logger: log,
	})
	background.Run(s.T, redrives.Run)
	return api.Options{Reader: limits.Reader{Config: cfg, Redis: rdb}, Redrives: redrives, DeadLetters: letters}
}

// tokenOf writes a token into a file.
func tokenOf(t *testing.T, name string, role auth.Role, text string) auth.Token {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return auth.Token{Name: name, Role: role, File: file}
}

// usual is how the provider answers.
var usual = provider.Behaviour{Latency: 20 * time.Millisecond}

func (s *site) enqueue(topic string, n int) {
	s.Helper()
	records := make([]job.Record, n)
	for i := range records {
		records[i].Value = fmt.Appendf(nil, `{"id":"%s-%d","to":"r%d"}`, topic, i, i%400)
	}
	s.write(topic, records)
}

func (s *site) write(topic string, records []job.Record) {
	s.Helper()
	producer, err := consumer.NewProducer(consumer.ProducerOptions{Connection: consumer.Connection{Brokers: s.parts.Brokers()}})
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = producer.Close() }()
	if err := producer.WriteBatch(s.Context(), topic, records); err != nil {
		s.Fatal(err)
	}
}

// campaign writes jobs of a campaign.
func (s *site) campaign(name string, n int) {
	s.Helper()
	records := make([]job.Record, n)
	for i := range records {
		records[i] = job.Record{Value: fmt.Appendf(nil, `{"id":"%s-%d","to":"r%d"}`, name, i, i), Headers: []job.Header{{Key: "campaign", Value: []byte(name)}}}
	}
	s.write("jobs", records)
}

// calls are the calls of each job of a campaign.
func (s *site) calls(campaign string) map[string]int {
	calls := map[string]int{}
	for _, a := range s.parts.Provider.Arrivals() {
		if strings.HasPrefix(a.Key, campaign+"-") {
			calls[a.Key]++
		}
	}
	return calls
}

// away stands in for a node that is away while down says so.
func (s *site) away(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		s.open.Store(r, cancel)
		defer s.open.Delete(r)
		if s.down.Load() {
			problem.Write(w, problem.Error{Status: http.StatusServiceUnavailable, Detail: "the node is away"})
			return
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// goes takes the node away, and ends what it serves.
func (s *site) goes() {
	s.down.Store(true)
	s.open.Range(func(_, cancel any) bool { cancel.(context.CancelFunc)(); return true })
}

// changes makes a change as another operator would.
func (s *site) changes(method, path, body string) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+"/api/v1/limits/provider"+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("If-Match", "*")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		s.Fatalf("got %d %s", resp.StatusCode, text)
	}
}

// browser is one tab.
type browser struct {
	*testing.T

	ctx context.Context //nolint:containedctx // chromedp keeps the tab in it
	mu  sync.Mutex
	bad []string // console errors, exceptions and breaches of the policy
}

// patience is for what hangs.
const patience = 90 * time.Second

func open(t *testing.T, path, url string) *browser {
	t.Helper()
	b := &browser{T: t}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.WSURLReadTimeout(patience),
	)
	ctx, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithListener(b.hear))
	t.Cleanup(cancel)
	b.ctx = ctx
	if err := chromedp.Do(ctx); err != nil { // the browser lives as long as this context
		t.Fatal(err)
	}
	command(b, cdplog.Enable, cdp.Empty{})
	command(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Europe/Berlin"})
	command(b, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{
		Source: `document.addEventListener('securitypolicyviolation', e => console.error('policy: ' + e.violatedDirective + ' ' + e.blockedURI))`,
	})
	b.do(chromedp.EmulateViewport(1280, 900), chromedp.Navigate(url))
	return b
}

func command[P, R any](b *browser, c cdp.Command[P, R], params P) {
	b.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	}))
}

// hear keeps what the browser complains of. It may complain of an answer that the test is after.
func (b *browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *cdplog.EventEntryAdded:
		if e.Entry.Source != cdplog.EntrySourceNetwork && e.Entry.Level == cdplog.EntryLevelError || e.Entry.Source == cdplog.EntrySourceSecurity {
			b.bad = append(b.bad, string(e.Entry.Source)+": "+e.Entry.Text)
		}
	case *runtime.EventExceptionThrown:
		b.bad = append(b.bad, "exception: "+e.ExceptionDetails.Text+" "+describe(e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			text, _ := json.Marshal(e.Args)
			b.bad = append(b.bad, "console: "+string(text))
		}
	}
}

func describe(o *runtime.RemoteObject) string {
	if o == nil {
		return ""
	}
	return o.Description
}

// fine fails where the browser complained.
func (b *browser) fine() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range b.bad {
		b.Errorf("the browser complained: %s", text)
	}
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	run(b, chromedp.Steps(actions...))
}

func run[T any](b *browser, action chromedp.Action[T]) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		b.Fatal(err)
	}
	return value
}

// eval returns what an expression is worth.
func eval[T any](b *browser, expression string) T {
	b.Helper()
	return run(b, chromedp.Evaluate[T](expression))
}

// until polls: its deadline is for what hangs.
func (b *browser) until(what, expression string) {
	b.Helper()
	for deadline := time.Now().Add(patience); !eval[bool](b, "Boolean("+expression+")"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.shoot("failed")
			b.Fatalf("not within %v: %s\n%s", patience, what, eval[string](b, "document.body.innerText"))
		}
	}
}

// has waits for a text in an element that is shown.
func (b *browser) has(id, text string) {
	b.Helper()
	b.until(fmt.Sprintf("%s has %q", id, text), fmt.Sprintf("document.getElementById(%q)?.checkVisibility() && document.getElementById(%q).textContent.includes(%q)", id, id, text))
}

func css(id string) chromedp.CSS { return chromedp.CSS("#" + id) }

// types replaces what a field has.
func (b *browser) types(id, text string) {
	b.Helper()
	eval[bool](b, fmt.Sprintf("(() => { const e = document.getElementById(%q); e.value = ''; return true; })()", id))
	b.do(chromedp.SendKeys(css(id), text))
}

func (b *browser) picks(id, value string) {
	b.Helper()
	eval[bool](b, fmt.Sprintf("(() => { const e = document.getElementById(%q); e.value = %q; return e.dispatchEvent(new Event('change', {bubbles: true})); })()", id, value))
}

func (b *browser) click(id string) {
	b.Helper()
	b.do(chromedp.Click(css(id)))
}

// press presses a key, so many times.
func (b *browser) press(key string) {
	b.Helper()
	b.do(chromedp.KeyEvent(key))
}

// tabTo goes to an element by the tab key alone.
func (b *browser) tabTo(id string) {
	b.Helper()
	for range 60 {
		if eval[string](b, "document.activeElement?.id ?? ''") == id {
			return
		}
		b.press("\t")
	}
	b.Fatalf("60 times the tab key do not lead to %s", id)
}

func shots(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("DISPATCHER_TEST_SHOTS"); dir != "" {
		return dir
	}
	return t.ArtifactDir()
}

// shoot keeps a picture of the whole page.
func (b *browser) shoot(name string) {
	b.Helper()
	png := run(b, chromedp.FullScreenshot(100))
	if err := os.WriteFile(filepath.Join(shots(b.T), name+".png"), png, 0o600); err != nil {
		b.Fatal(err)
	}
}

// scheme has the page shown in light or dark.
func (b *browser) scheme(name string) {
	b.Helper()
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

// violation is what axe-core finds.
type violation struct {
	ID, Impact, Help string
	Nodes            []string
}

// accessible runs axe-core, where the environment has its file, and fails for what is serious or critical.
func (b *browser) accessible(where string) {
	b.Helper()
	file := os.Getenv("DISPATCHER_AXE")
	if file == "" {
		return
	}
	source, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	eval[bool](b, string(source)+";true")
	found := run(b, chromedp.Evaluate[[]violation](`axe.run().then(r => r.violations.map(v => ({
		ID: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.map(n => n.html.slice(0, 160) + ' ' + n.any.map(a => a.message).join('; ')),
	})))`, chromedp.EvalAwaitPromise))
	for _, f := range found {
		report := b.Logf
		if f.Impact == "serious" || f.Impact == "critical" {
			report = b.Errorf
		}
		report("axe, %s: %s (%s): %s\n  %s", where, f.ID, f.Impact, f.Help, strings.Join(f.Nodes, "\n  "))
	}
	b.Logf("axe, %s: %d findings", where, len(found))
}
