package page_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"dispatcher/internal/auth"
	"dispatcher/internal/page"
)

// An operator lowers the rate, pauses, resumes and takes it back, and sees each of them act on all nodes.
func TestAnOperatorChangesTheRate(t *testing.T) {
	path := chromium(t)
	s := newSite(t, 60_000)
	b := open(t, path, s.url)
	b.has("connection", "Live")
	b.has("health-text", "The limit provider holds the jobs up")
	b.until("the fleet calls", "Number(document.getElementById('f-calls').textContent) > 5")
	b.until("all nodes are ready", "document.querySelectorAll('#node-rows tr').length === 3 && !document.querySelector('#node-rows .warn')")
	b.has("zone", "Europe/Berlin")
	b.accessible("while it works")

	// by the keyboard alone
	b.tabTo("cap")
	b.press("150")
	b.has("preview-text", "instead of")
	b.tabTo("why")
	b.press("the provider asked for it")
	b.tabTo("by")
	b.press("Ada")
	b.shoot("preview")
	b.tabTo("rate-review")
	b.press(kb.Enter)
	b.has("confirm-text", "From 300 calls in any 1 s to 150 calls in any 1 s, until somebody changes it.")
	b.accessible("with the dialog")
	b.shoot("confirm")
	b.press(kb.Enter)
	b.has("rate-result", "The cap is 150. In force on 3/3 nodes after")
	b.has("rate-now", "150 calls in any 1 s")
	b.until("the history has it", "document.querySelector('#history-rows tr').textContent.includes('cap 300 → 150') && document.querySelector('#history-rows tr').textContent.includes('Ada')")
	b.until("the calls follow", "Number(document.getElementById('f-calls').textContent) <= 160")

	b.do(chromedp.Click(chromedp.CSS("#minute summary")))
	b.until("the last minute is a table", "document.querySelectorAll('#minute-rows tr').length === 60")
	b.do(chromedp.Click(chromedp.CSS("#minute summary")))

	b.types("pause-why", "a test")
	b.click("pause-button")
	b.has("pause-result", "Paused. In force on 3/3 nodes after")
	b.has("health-state", "Paused")
	b.has("resume-countdown", "14:")
	b.until("nothing is called", "document.getElementById('f-calls').textContent === '0'")
	b.has("f-gone", "never")
	b.shoot("paused")
	b.accessible("while it is paused")
	b.click("resume-button")
	b.has("pause-result", "Resumed. In force on 3/3 nodes after")
	b.has("pause-h", "Pause")

	b.until("the newest change can be undone", "document.getElementById('undo') && document.querySelector('#history-rows tr').textContent.includes('resumed')")
	b.click("undo") // the resuming: so it is paused again
	b.has("confirm-text", "Undo makes: paused, until")
	b.click("confirm-yes")
	b.has("undo-result", "Undone. In force on 3/3 nodes after")
	b.has("health-state", "Paused")
	b.click("resume-button")
	b.has("pause-h", "Pause")
	b.fine()
}

// Of two operators the slower one learns what the other did, and decides again.
func TestTwoOperatorsMeet(t *testing.T) {
	path := chromium(t)
	s := newSite(t, 30_000)
	b := open(t, path, s.url)
	b.has("rate-now", "300 calls")
	b.types("cap", "200")
	b.has("preview-text", "jobs gone at")
	s.changes(http.MethodPatch, "", `{"cap": 280, "by": "Bob", "why": "an incident"}`)
	b.has("rate-meanwhile", "changed the limit meanwhile: cap 300 → 280")
	b.types("why", "less is asked for")
	b.click("rate-review")
	b.has("confirm-text", "From 280 calls")
	s.changes(http.MethodPatch, "", `{"cap": 240, "by": "Bob", "why": "it goes on"}`)
	b.click("confirm-yes")
	b.has("rate-meanwhile", "Bob from 127.0.0.1 changed the limit meanwhile: cap 280 → 240")
	b.has("rate-meanwhile", "Nothing of yours was changed")
	b.has("rate-now", "240 calls")
	b.shoot("conflict")
	b.accessible("after a conflict")
	b.click("rate-review")
	b.has("confirm-text", "From 240 calls")
	b.click("confirm-yes")
	b.has("rate-result", "The cap is 200. In force on 3/3 nodes after")

	// a guardrail refuses, and is passed
	b.types("cap", "20")
	b.has("preview-refused", "max_step")
	b.types("why", "a guardrail")
	b.click("rate-review")
	b.has("force-fault", "Check this")
	b.shoot("guardrail")
	b.click("force")
	b.picks("for", "custom")
	b.types("custom", "2")
	b.click("rate-review")
	b.has("confirm-text", "for 2 minutes. Then it is 200 again.")
	b.has("confirm-text", "This passes the guardrail: max_step")
	b.click("confirm-yes")
	b.has("rate-result", "The cap is 20. In force on 3/3 nodes after")
	b.has("rate-override", "then 200 calls in any 1 s again")

	// faults stand next to their field
	b.types("cap", "50")
	b.types("why", "too long")
	b.picks("for", "custom")
	b.types("custom", "9999999")
	b.click("rate-review")
	b.click("confirm-yes")
	b.has("custom-fault", "must be from 1s to")

	b.types("job", "jobs-29999")
	b.press(kb.Enter)
	b.until("the nodes have answered", "/waits for|No node holds/.test(document.getElementById('ask-answer').textContent)")
	b.shoot("asked")
	b.types("job", "jobs/0/0")
	b.press(kb.Enter)
	b.until("the nodes have answered for the place", "/at jobs.0.0 on|jobs.0.0 is/.test(document.getElementById('ask-answer').textContent)")
	b.fine()
}

// What the provider refuses is shown and can be ended.
func TestTheProviderRefuses(t *testing.T) {
	path := chromium(t)
	s := newSite(t, 60_000)
	b := open(t, path, s.url)
	b.has("connection", "Live")
	b.until("the fleet calls", "Number(document.getElementById('f-calls').textContent) > 5")
	refusing := usual
	refusing.Status, refusing.RetryAfter, refusing.Accepts = http.StatusTooManyRequests, time.Second, 10
	s.parts.Provider.Behave(refusing)
	b.has("slow-configured", "of 300 that are configured")
	b.until("429s are counted", "Number(document.getElementById('f-refused').textContent) > 0")
	b.shoot("slowed")
	b.accessible("while the provider refuses")
	s.parts.Provider.Behave(usual)
	b.click("slow-release")
	b.has("confirm-text", "300 calls at once")
	b.click("confirm-yes")
	b.until("the slowdown is over", "document.getElementById('slow').hidden")
	b.fine()
}

// A campaign is cancelled by a rule. Its jobs become dead letters, which are listed. When the rule has ended they are replayed,
// and each is called once.
func TestAnOperatorCancelsAndReplays(t *testing.T) {
	path := chromium(t)
	const jobs, dropped = 120, 2
	s := newSite(t, 0)
	b := open(t, path, s.url)
	b.until("all nodes are ready", "document.querySelectorAll('#node-rows tr').length === 3 && !document.querySelector('#node-rows .warn')")
	b.has("letters-h", "Dead letters")
	cancels(b, s, jobs)
	showsLetters(b, jobs)

	// two rows are dropped
	eval[bool](b, "[...document.querySelectorAll('#letter-rows input')].slice(0, 2).forEach((box) => box.click()) === undefined")
	b.has("settle-about", "the 2 chosen dead letters")
	b.click("settle-drop")
	b.has("settle-why-fault", "Say why")
	b.types("settle-why", "tests of ours")
	b.click("settle-drop")
	b.has("confirm-h", "Drop the 2 chosen dead letters?")
	b.click("confirm-yes")
	b.has("settle-result", "The drop is over: 2 dropped")
	b.has("letters-status", "118 dead letters of topic jobs")

	// with the rule they would be cancelled again
	b.types("settle-why", "the price is right")
	b.click("settle-replay")
	b.has("confirm-text", "A rule that cancels jobs is in force")
	b.click("confirm-no")
	endsRule(b)

	// the rest is replayed slowly, stopped, and replayed
	b.click("letters-class-cancelled")
	b.has("settle-about", "all dead letters of class cancelled (118)")
	b.types("settle-rate", "5")
	b.click("settle-replay")
	b.has("confirm-text", "at most 5 jobs a second")
	b.accessible("with the dialog of a replay")
	b.shoot("replay-confirm")
	b.click("confirm-yes")
	b.until("it goes on", "document.querySelector('#run-rows progress') && Number(document.querySelector('#run-rows td:nth-child(3)').textContent.match(/(\\d+) replayed/)?.[1]) > 0")
	b.shoot("replaying")
	b.accessible("while letters are replayed")
	eval[bool](b, "document.querySelector('#run-rows button').click() === undefined")
	b.has("settle-result", "stopped by")
	b.types("settle-rate", "")
	b.types("settle-why", "the price is right")
	b.click("settle-replay")
	b.click("confirm-yes")
	b.has("settle-result", "The replay is over")
	b.has("letters-status", "No dead letters of topic jobs")
	b.until("no job waits", "document.getElementById('f-waiting').textContent === '0'")
	calls := s.calls("spring")
	for job, n := range calls {
		if n != 1 {
			t.Errorf("got %d calls of %s, want 1", n, job)
		}
	}
	if len(calls) != jobs-dropped {
		t.Errorf("got calls of %d jobs, want of all %d but the %d that were dropped", len(calls), jobs, dropped)
	}
	b.fine()
}

// cancels makes a rule by the keyboard, and has jobs written that it cancels.
func cancels(b *browser, s *site, jobs int) {
	b.Helper()
	b.tabTo("rule-when")
	b.press(`job.headers["campaign"] =`)
	b.has("rule-preview", "Not an expression yet")
	b.press(kb.Enter)
	b.has("rule-why-fault", "Say why")
	b.types("rule-why", "wrong price")
	b.press(kb.Enter)
	b.until("the fault stands next to the expression", "document.getElementById('rule-when-fault').textContent !== '' && document.activeElement.id === 'rule-when'")
	b.shoot("rule-fault")
	b.types("rule-when", `job.headers["campaign"] == "spring"`)
	b.has("rule-preview", "No job is fetched now")
	b.picks("rule-for", "custom")
	b.types("rule-custom", "99")
	b.click("rule-review")
	b.click("confirm-yes")
	b.has("rule-custom-fault", "must be within")
	b.types("rule-custom", "3")
	b.click("rule-review")
	b.has("confirm-text", `this rule cancels jobs for which job.headers["campaign"] == "spring" is true.`)
	b.accessible("with the dialog of a rule")
	b.shoot("rule-confirm")
	b.press(kb.Enter)
	b.has("rule-result", "The jobs are cancelled. In force on 3/3 nodes after")
	b.has("rule-rows", "wrong price")
	b.accessible("with a rule in force")
	s.campaign("spring", jobs)
}

// showsLetters has the dead letters of the campaign listed.
func showsLetters(b *browser, jobs int) {
	b.Helper()
	b.until("all are cancelled", fmt.Sprintf("document.getElementById('f-dead').textContent === 'cancelled %d'", jobs))
	b.click("letters-show")
	b.has("letters-status", fmt.Sprintf("%d dead letters of topic jobs", jobs))
	b.until("a page of them is listed", "document.querySelectorAll('#letter-rows tr').length === 50 && document.querySelector('#letter-rows tr').textContent.includes('wrong price')")
	b.click("letters-more")
	b.until("more are listed", "document.querySelectorAll('#letter-rows tr').length === 100")
	b.shoot("letters")
	b.accessible("with dead letters")
	b.scheme("dark")
	b.do(chromedp.EmulateViewport(360, 780, chromedp.EmulateScale(2)))
	b.shoot("letters-phone")
	b.accessible("with dead letters on a phone in the dark")
	if wide := eval[float64](b, "document.documentElement.scrollWidth"); wide > 360 {
		b.Errorf("got %v px of width on a phone of 360", wide)
	}
	b.scheme("light")
	b.do(chromedp.EmulateViewport(1280, 900))
}

// endsRule ends the one rule.
func endsRule(b *browser) {
	b.Helper()
	b.click("rule-end-1")
	b.has("confirm-h", "End this rule?")
	b.click("confirm-yes")
	b.has("rule-result", "The rule has ended. In force on 3/3 nodes after")
	b.until("the list is gone", "document.getElementById('rule-list').hidden")
}

// Held jobs wait, are counted by the preview, and are called when the rule has ended.
func TestAnOperatorHoldsJobs(t *testing.T) {
	path := chromium(t)
	const jobs = 150
	s := newSite(t, 4000)
	s.campaign("spring", jobs)
	b := open(t, path, s.url)
	b.until("all nodes are ready", "document.querySelectorAll('#node-rows tr').length === 3 && !document.querySelector('#node-rows .warn')")
	b.types("rule-when", `hasPrefix(job.id, "jobs-")`)
	b.until("the nodes have counted", "/[1-9][\\d,]* of the [\\d,]+ fetched jobs match; those still in Kafka/.test(document.getElementById('rule-preview').textContent)")
	b.click("rule-hold")
	b.types("rule-why", "not at night")
	b.shoot("rule")
	b.click("rule-review")
	b.has("confirm-text", "They wait. Others go past them.")
	b.click("confirm-yes")
	b.has("rule-result", "The jobs are held. In force on 3/3 nodes after")
	b.until("it is in the list", "/Hold.*24:00:00|Hold.*23:59:/.test(document.getElementById('rule-rows').textContent)")
	b.until("the others were called", "document.getElementById('f-calls').textContent === '0'")
	b.shoot("held")
	b.accessible("while jobs are held")
	endsRule(b)
	b.until("the held jobs are called", "Number(document.getElementById('f-calls').textContent) > 0")
	b.fine()
}

// Without news the page says that it knows nothing; then it goes on by itself.
func TestANodeGoesSilent(t *testing.T) {
	path := chromium(t)
	s := newSite(t, 20_000)
	b := open(t, path, s.url)
	b.has("connection", "Live")
	s.goes()
	b.has("health-state", "Unknown")
	b.has("figures-age", "These figures are")
	b.has("health-text", "Nothing was heard for")
	b.shoot("silent")
	b.accessible("without news")
	s.down.Store(false)
	b.has("connection", "Live")
	b.until("health is known", "document.getElementById('health-state').textContent !== 'Unknown' && document.getElementById('figures-age').hidden")
	b.fine()
}

// A token is asked for where the API wants one, and is kept in the tab alone.
func TestAnOperatorSignsIn(t *testing.T) {
	path := chromium(t)
	const viewer, operator = "viewer-0123456789", "operator-0123456789"
	s := newSite(t, 5000, tokenOf(t, "paul", auth.Viewer, viewer), tokenOf(t, "anna", auth.Operator, operator))
	b := open(t, path, s.url)
	b.has("sign-in-h", "Sign in")
	b.shoot("sign-in")
	b.accessible("at the sign-in")
	b.types("token", "wrong-0123456789abc")
	b.press(kb.Enter)
	b.has("token-fault", "This token is not known")
	b.types("token", viewer)
	b.press(kb.Enter)
	b.has("connection", "Live")
	b.until("the token is in the session alone", "sessionStorage.getItem('dispatcher.token').startsWith('viewer-') && Object.keys(localStorage).length === 0 && document.cookie === ''")
	b.click("pause-button")
	b.has("pause-fault", "Your token's role may only look")
	b.click("sign-out")
	b.has("sign-in-h", "Sign in")
	b.until("the token is forgotten", "sessionStorage.getItem('dispatcher.token') === null")
	b.types("token", operator)
	b.press(kb.Enter)
	b.has("connection", "Live")
	b.until("the token names the operator", "document.getElementById('by-field').hidden")
	b.click("pause-button")
	b.has("pause-result", "Paused. In force on 3/3 nodes after")
	b.has("resume-text", "anna")
	b.fine()
}

// Nothing scrolls sideways on a phone, and both schemes can be read.
func TestItFitsThePhoneAndTheNight(t *testing.T) {
	path := chromium(t)
	s := newSite(t, 60_000)
	s.changes(http.MethodPatch, "", `{"cap": 260, "by": "Ada", "why": "the provider asked for it in ticket 4711, which has a long name", "for": "1h"}`)
	b := open(t, path, s.url)
	b.until("the fleet calls", "Number(document.getElementById('f-calls').textContent) > 5")
	b.until("all nodes are ready", "document.querySelectorAll('#node-rows tr').length === 3 && !document.querySelector('#node-rows .warn')")
	if shots(t) == os.Getenv("DISPATCHER_TEST_SHOTS") { // somebody looks at the pictures
		b.do(chromedp.Click(chromedp.CSS("#minute summary")))
		b.until("the chart has a minute", "[...document.querySelectorAll('#minute-rows tr')].filter(r => r.cells[1].textContent !== '–').length > 55")
		b.do(chromedp.Click(chromedp.CSS("#minute summary")))
	}
	b.shoot("desktop")
	b.scheme("dark")
	b.shoot("dark")
	b.accessible("in the dark")
	b.do(chromedp.EmulateViewport(360, 780, chromedp.EmulateScale(2)))
	b.until("the chart fits", "document.querySelector('.uplot').clientWidth < 360")
	b.shoot("phone-dark")
	b.scheme("light")
	b.types("cap", "130")
	b.has("preview-text", "jobs gone at")
	b.shoot("phone")
	if wide := eval[float64](b, "document.documentElement.scrollWidth"); wide > 360 {
		t.Errorf("got %v px of width on a phone of 360", wide)
	}
	b.accessible("on a phone")
	b.fine()
}

// Times and changes are written for people, in the browser's zone.
func TestTextsForPeople(t *testing.T) {
	path := chromium(t)
	server := httptest.NewServer(page.Handler())
	t.Cleanup(server.Close)
	b := open(t, path, server.URL)
	b.has("health-text", "Nothing is known of the fleet")
	got := run(b, chromedp.Evaluate[[]string](`import('/static/text.js').then(t => [
		t.inZone('Paused by anna until 23:30:00 UTC: 5 jobs wait.', new Date('2026-07-01T22:00:00Z')).replace(/2 Jul( 2026)?,? /, '2 Jul '),
		t.inZone('not before 2026-01-02T03:04:05.678Z').replace(/2 Jan( 2026)?,? /, '2 Jan '),
		t.inZone('until 00:10:00 UTC', new Date('2026-07-01T23:50:00Z')).replace(/2 Jul( 2026)?,? /, '2 Jul '),
		[0.05, 2.5, 59.6, 125, 3600, 90000].map(t.lasting).join(', '),
		t.countdown(905) + ' ' + t.countdown(3725) + ' ' + t.countdown(-3),
		t.changes({cap: 300, window_s: 1, paused: false, guard_s: 0.01}, {cap: 150, window_s: 60, paused: true, guard_s: 0.01}).join(', '),
		t.changes({cap: 300, share: 0.99}, {cap: 300, share: 0.98}, true).join(),
		[null, 0, 12.34, 53475].map(t.number).join(' '),
	])`, chromedp.EvalAwaitPromise))
	want := []string{
		"Paused by anna until 2 Jul 01:30:00 CEST: 5 jobs wait.", "not before 2 Jan 04:04:05 CET", "until 2 Jul 02:10:00 CEST",
		"50 ms, 2.5 s, 1 min, 2 min 5 s, 1 h, 1 d 1 h", "15:05 1:02:05 0:00", "cap 300 → 150, window 1 s → 1 min, paused", "", "– 0 12.3 53,475",
	}
	for i, text := range want {
		if got[i] != text {
			t.Errorf("got %q, want %q", got[i], text)
		}
	}
	b.fine()
}
