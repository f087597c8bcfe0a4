package browser

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Path is the path of a browser. Without one the test is skipped, or fails where the environment demands one.
func Path(t *testing.T) string {
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
	if os.Getenv("DISPATCHER_TEST_REQUIRE_BROWSER") == "1" {
		t.Fatal(lacks)
	}
	t.Skip(lacks)
	return ""
}

// Tab is one tab.
type Tab struct {
	*testing.T

	ctx context.Context //nolint:containedctx // chromedp keeps the tab in it
	mu  sync.Mutex
	bad []string // console errors, exceptions and breaches of the policy
}

// patience is for what hangs.
const patience = 90 * time.Second

// Open starts a browser at path, and opens a page of 1280 by 900 pixels, in light, in Berlin.
func Open(t *testing.T, path, url string) *Tab {
	t.Helper()
	b := &Tab{T: t}
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
	b.Do(chromedp.EmulateViewport(1280, 900), chromedp.Navigate(url))
	return b
}

func command[P, R any](b *Tab, c cdp.Command[P, R], params P) {
	b.Helper()
	b.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	}))
}

// hear keeps what the browser complains of. It may complain of an answer that the test is after.
func (b *Tab) hear(event any) {
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

// Fine fails where the browser complained.
func (b *Tab) Fine() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range b.bad {
		b.Errorf("the browser complained: %s", text)
	}
}

// Do runs chromedp's actions, and fails the test where one fails.
func (b *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	run(b, chromedp.Steps(actions...))
}

func run[T any](b *Tab, action chromedp.Action[T]) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		b.Fatal(err)
	}
	return value
}

// Eval returns what an expression is worth, or what its promise brings.
func Eval[T any](b *Tab, expression string) T {
	b.Helper()
	return run(b, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// Until polls: its deadline is for what hangs.
func (b *Tab) Until(what, expression string) {
	b.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !Eval[bool](b, "Boolean("+expression+")"); <-tick.C {
		if time.Now().After(deadline) {
			b.Shoot("failed")
			b.Fatalf("not within %v: %s\n%s", patience, what, Eval[string](b, "document.body.innerText"))
		}
	}
}

// Text is the text of an element.
func (b *Tab) Text(id string) string {
	b.Helper()
	return Eval[string](b, fmt.Sprintf("document.getElementById(%q).textContent", id))
}

// Has waits for a text in an element that is shown.
func (b *Tab) Has(id, text string) {
	b.Helper()
	b.Until(fmt.Sprintf("%s has %q", id, text), fmt.Sprintf("document.getElementById(%q)?.checkVisibility() && document.getElementById(%q).textContent.includes(%q)", id, id, text))
}

func css(id string) chromedp.CSS { return chromedp.CSS("#" + id) }

// Types replaces what a field has.
func (b *Tab) Types(id, text string) {
	b.Helper()
	Eval[bool](b, fmt.Sprintf("(() => { const e = document.getElementById(%q); e.value = ''; return true; })()", id))
	b.Do(chromedp.SendKeys(css(id), text))
}

// Picks chooses a value of a select.
func (b *Tab) Picks(id, value string) {
	b.Helper()
	Eval[bool](b, fmt.Sprintf("(() => { const e = document.getElementById(%q); e.value = %q; return e.dispatchEvent(new Event('change', {bubbles: true})); })()", id, value))
}

// Click clicks an element; again, as people do, where the page moved it away from under the mouse.
func (b *Tab) Click(id string) {
	b.Helper()
	Eval[bool](b, fmt.Sprintf(`(() => {
		window.clicked = false;
		const hears = (e) => { if (e.target.closest('#%s')) { window.clicked = true; document.removeEventListener('click', hears, true); } };
		document.addEventListener('click', hears, true);
		return true;
	})()`, id))
	for deadline := time.Now().Add(patience); ; {
		b.Do(chromedp.Click(css(id)))
		if Eval[bool](b, "window.clicked !== false") { // a page that was left and loaded again knows nothing of it
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("not within %v: a click reaches %s", patience, id)
		}
	}
}

// Press presses keys, one for each character.
func (b *Tab) Press(key string) {
	b.Helper()
	b.Do(chromedp.KeyEvent(key))
}

// TabTo goes to an element by the tab key alone.
func (b *Tab) TabTo(id string) {
	b.Helper()
	for range mostTabs {
		if Eval[string](b, "document.activeElement?.id ?? ''") == id {
			return
		}
		b.Press("\t")
	}
	b.Fatalf("%d times the tab key do not lead to %s", mostTabs, id)
}

// mostTabs is how often the tab key goes round the page, and more.
const mostTabs = 200

// Enter goes to a button by the tab key, and presses it by the enter key.
func (b *Tab) Enter(id string) {
	b.Helper()
	b.TabTo(id)
	b.Press(kb.Enter)
}

// Writes goes to a field by the tab key, and writes to it in the place of what it has.
func (b *Tab) Writes(id, text string) {
	b.Helper()
	b.TabTo(id) // selects what it has
	b.Press(text)
}

// Watched reports whether somebody is going to look at the pictures.
func Watched() bool { return os.Getenv(shots) != "" }

const shots = "DISPATCHER_TEST_SHOTS" // names the directory of the pictures

// Shoot keeps a picture of the whole page.
func (b *Tab) Shoot(name string) {
	b.Helper()
	png := run(b, chromedp.FullScreenshot(100))
	if err := os.WriteFile(filepath.Join(cmp.Or(os.Getenv(shots), b.ArtifactDir()), name+".png"), png, 0o600); err != nil {
		b.Fatal(err)
	}
}

// Scheme has the page shown in light or dark.
func (b *Tab) Scheme(name string) {
	b.Helper()
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

// violation is what axe-core finds.
type violation struct {
	ID, Impact, Help string
	Nodes            []string
}

// Accessible runs axe-core, where the environment has its file, and fails for what is serious or critical.
func (b *Tab) Accessible(where string) {
	b.Helper()
	file := os.Getenv("DISPATCHER_TEST_AXE")
	if file == "" {
		return
	}
	source, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	Eval[bool](b, string(source)+";true")
	found := Eval[[]violation](b, `axe.run().then(r => r.violations.map(v => ({
		ID: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.map(n => n.html.slice(0, 160) + ' ' + n.any.map(a => a.message).join('; ')),
	})))`)
	for _, f := range found {
		report := b.Logf
		if f.Impact == "serious" || f.Impact == "critical" {
			report = b.Errorf
		}
		report("axe, %s: %s (%s): %s\n  %s", where, f.ID, f.Impact, f.Help, strings.Join(f.Nodes, "\n  "))
	}
	b.Logf("axe, %s: %d findings", where, len(found))
}
