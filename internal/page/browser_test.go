package page_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"dispatcher/internal/auth"
	"dispatcher/internal/browser"
	"dispatcher/internal/page"
)

// An operator lowers the rate, pauses, resumes and takes it back, and sees each of them act on all nodes.
func TestAnOperatorChangesTheRate(t *testing.T) {
	path := browser.Path(t)
	s := newSite(t, 60_000)
	b := browser.Open(t, path, s.url)
	b.Has("connection", "Live")
	b.Has("health-text", "The limit provider holds the jobs up")
	b.Until("the fleet calls", "Number(document.getElementById('f-calls').textContent) > 5")
	b.NodesReady(3)
	b.Has("zone", "Europe/Berlin")
	b.Accessible("while it works")

	// by the keyboard alone
	b.FillsRate("150", "the provider asked for it", "Ada")
	b.Shoot("preview")
	b.Enter("rate-review")
	b.Has("confirm-text", "From 300 calls in any 1 s to 150 calls in any 1 s, until somebody changes it.")
	b.Accessible("with the dialog")
	b.Shoot("confirm")
	b.Press(kb.Enter)
	b.Has("rate-result", "The cap is 150. In force on 3/3 nodes after")
	b.Has("rate-now", "150 calls in any 1 s")
	b.Changed("cap 300 → 150", "Ada")
	b.Until("the calls follow", "Number(document.getElementById('f-calls').textContent) <= 160")

	b.Do(chromedp.Click(chromedp.CSS("#minute summary")))
	b.Until("the last minute is a table", "document.querySelectorAll('#minute-rows tr').length === 60")
	b.Do(chromedp.Click(chromedp.CSS("#minute summary")))

	b.Types("pause-why", "a test")
	b.Click("pause-button")
	b.Has("pause-result", "Paused. In force on 3/3 nodes after")
	b.Has("health-state", "Paused")
	b.Has("resume-countdown", "14:")
	b.Until("nothing is called", "document.getElementById('f-calls').textContent === '0'")
	b.Has("f-gone", "never")
	b.Shoot("paused")
	b.Accessible("while it is paused")
	b.Click("resume-button")
	b.Has("pause-result", "Resumed. In force on 3/3 nodes after")
	b.Has("pause-button", "Pause")

	b.Undoable("resumed")
	b.Click("undo") // the resuming: so it is paused again
	b.Has("confirm-text", "Undo makes: paused, until")
	b.Click("confirm-yes")
	b.Has("undo-result", "Undone. In force on 3/3 nodes after")
	b.Has("health-state", "Paused")
	// the answer comes while the operator types elsewhere: the keys stay there
	browser.Eval[bool](b, "document.getElementById('resume-button').click() === undefined && document.getElementById('why').focus() === undefined")
	b.Has("pause-result", "Resumed. In force on 3/3 nodes after")
	b.Press(" a b")
	if got := browser.Eval[string](b, "document.getElementById('why').value"); got != " a b" {
		t.Errorf("got %q in the field where the operator typed, want all of it", got)
	}
	b.Has("pause-button", "Pause")
	b.Fine()
}

// Of two operators the slower one learns what the other did, and decides again.
func TestTwoOperatorsMeet(t *testing.T) {
	path := browser.Path(t)
	s := newSite(t, 30_000)
	b := browser.Open(t, path, s.url)
	b.Has("rate-now", "300 calls")
	b.Types("cap", "200")
	b.Has("preview-text", "jobs gone at")
	s.changes(http.MethodPatch, "", `{"cap": 280, "by": "Bob", "why": "an incident"}`)
	b.Has("rate-meanwhile", "changed the limit meanwhile: cap 300 → 280")
	b.Types("why", "less is asked for")
	b.Click("rate-review")
	b.Has("confirm-text", "From 280 calls")
	s.changes(http.MethodPatch, "", `{"cap": 240, "by": "Bob", "why": "it goes on"}`)
	s.chose.Store(true)
	b.Click("confirm-yes")
	b.Has("rate-meanwhile", "Bob from 127.0.0.1 changed the limit meanwhile: cap 280 → 240")
	b.Has("rate-meanwhile", "Why: it goes on.")
	s.chose.Store(false)
	b.Has("rate-meanwhile", "Nothing of yours was changed")
	b.Has("rate-now", "240 calls")
	b.Shoot("conflict")
	b.Accessible("after a conflict")
	b.Click("rate-review")
	b.Has("confirm-text", "From 240 calls")
	b.Click("confirm-yes")
	b.Has("rate-result", "The cap is 200. In force on 3/3 nodes after")

	// an undo takes back the change that the operator saw, and no other
	undo := func(makes string) {
		b.Undoable(makes)
		b.Click("undo")
		b.Has("confirm-text", "Undo makes:")
	}
	undo("cap 240 → 200")
	s.changes(http.MethodPatch, "", `{"cap": 220, "by": "Bob", "why": "a bit more"}`)
	b.Click("confirm-yes")
	b.Has("undo-fault", "Bob from 127.0.0.1 changed the limit meanwhile: cap 200 → 220. Nothing was undone")
	s.blocks(1) // the fleet's own line stands above Bob's change
	b.Changed("cap 200 → 220", "Bob")
	b.Has("undo-fault", "Nothing was undone")
	undo("cap 200 → 220")
	s.changes(http.MethodPatch, "", `{"cap": 230, "by": "Bob", "why": "a mistake"}`)
	s.changes(http.MethodPost, "/undo", `{"by": "Bob"}`)
	b.Click("confirm-yes")
	b.Has("undo-result", "Undone. In force on 3/3 nodes after")
	b.Has("rate-now", "200 calls")

	// a guardrail refuses, and is passed
	b.Types("cap", "20")
	b.Has("preview-refused", "max_step")
	b.Types("why", "a guardrail")
	b.Click("rate-review")
	b.Has("force-fault", "Check this")
	b.Shoot("guardrail")
	b.Click("force")
	b.Picks("for", "custom")
	b.Types("custom", "2")
	b.Click("rate-review")
	b.Has("confirm-text", "for 2 minutes. Then it is 200 again.")
	b.Has("confirm-text", "This passes the guardrail: max_step")
	b.Click("confirm-yes")
	b.Has("rate-result", "The cap is 20. In force on 3/3 nodes after")
	b.Has("rate-override", "then 200 calls in any 1 s again")

	// a waste of the cap is refused, and is passed too
	s.changes(http.MethodPatch, "", `{"cap": 300, "burst": 100, "force": true, "by": "Bob", "why": "bursts"}`)
	b.Has("rate-now", "300 calls")
	b.Types("cap", "150")
	b.Has("preview-refused", "burst: 100: leaves")
	b.Types("why", "an incident")
	b.Click("force")
	b.Click("rate-review")
	b.Has("confirm-text", "This passes the guardrail: burst: 100: leaves")
	b.Click("confirm-yes")
	b.Has("rate-result", "The cap is 150. In force on 3/3 nodes after")

	// faults stand next to their field
	b.Types("cap", "50")
	b.Types("why", "too long")
	b.Picks("for", "custom")
	b.Types("custom", "9999999")
	b.Click("rate-review")
	b.Click("confirm-yes")
	b.Has("custom-fault", "must be from 1s to")

	b.Types("job", "jobs-29999")
	b.Press(kb.Enter)
	b.Until("the nodes have answered", "/waits for|No node holds/.test(document.getElementById('ask-answer').textContent)")
	b.Shoot("asked")
	b.Types("job", "jobs/0/0")
	b.Press(kb.Enter)
	b.Until("the nodes have answered for the place", "/at jobs.0.0 on|jobs.0.0 is/.test(document.getElementById('ask-answer').textContent)")
	b.Fine()
}

// A pause and a cap for a while each end at their own time.
func TestAPauseAndACapForAWhileMeet(t *testing.T) {
	path := browser.Path(t)
	s := newSite(t, 0)
	b := browser.Open(t, path, s.url)
	b.Has("rate-now", "300 calls")
	s.changes(http.MethodPatch, "", `{"cap": 100, "for": "2h", "by": "Bob", "why": "the provider asks for it"}`)
	b.Has("rate-override", "then 300 calls in any 1 s again")
	b.Click("pause-button")
	b.Has("resume-countdown", "14:")
	b.Has("rate-override", "This ends by itself in 1:59:")
	b.Has("rate-override", "then 300 calls in any 1 s again")
	b.Types("cap", "90")
	b.Types("why", "a bit less")
	b.Picks("for", "custom")
	b.Types("custom", "60")
	b.Has("preview-text", "No job waits now")
	b.Click("rate-review")
	b.Has("confirm-text", "for 60 minutes. Then it is 300 again.")
	b.Click("confirm-yes")
	b.Has("rate-result", "The cap is 90.")
	b.Has("rate-override", "This ends by itself in 59:")
	b.Has("resume-countdown", "14:")
	b.Click("resume-button")
	b.Has("rate-now", "Now: 90 calls")
	b.Has("rate-override", "then 300 calls in any 1 s again")
	b.Undoable("resumed")
	b.Click("undo") // the resuming
	b.Has("confirm-text", "Undo makes: paused, until")
	b.Click("confirm-yes")
	b.Has("resume-countdown", "14:")
	b.Fine()
}

// An operator's change can be undone however many lines of the fleet's own came after it.
func TestLawUndoOutlastsTheFleetsOwnLines(t *testing.T) {
	path := browser.Path(t)
	s := newSite(t, 0)
	s.changes(http.MethodPatch, "", `{"cap": 280, "by": "Bob"}`)
	s.changes(http.MethodPatch, "", `{"cap": 260, "by": "Bob"}`)
	s.blocks(25)
	b := browser.Open(t, path, s.url)
	b.Undoable("cap 280 → 260")
	b.Until("the change stands below the newest lines", "document.querySelectorAll('#history-rows tr').length === 21")
	b.Click("undo")
	b.Has("confirm-text", "Undo makes: cap 260 → 280.")
	b.Click("confirm-yes")
	b.Has("undo-result", "Undone. In force on 3/3 nodes after")
	b.Fine()
}

// A page that stays open over midnight shows the changes of the day before with their day.
func TestLawAPageLeftOpenShowsTheDay(t *testing.T) {
	path := browser.Path(t)
	s := newSite(t, 0)
	s.changes(http.MethodPatch, "", `{"cap": 280, "by": "Bob"}`)
	b := browser.Open(t, path, s.url)
	b.Changed("cap 300 → 280")
	browser.Eval[bool](b, `((Real) => {
		const now = () => Real.now() + 86400e3;
		globalThis.Date = class extends Real { constructor(...at) { super(...(at.length ? at : [now()])); } static now() { return now(); } };
		return true;
	})(Date)`)
	b.Until("the change has its day", "/^\\d+ [A-Z][a-z]+/.test(document.querySelector('#history-rows tr')?.textContent)")
	b.Fine()
}

// What the provider refuses is shown and can be ended.
func TestTheProviderRefuses(t *testing.T) {
	path := browser.Path(t)
	s := newSite(t, 60_000)
	b := browser.Open(t, path, s.url)
	b.Has("connection", "Live")
	b.Until("the fleet calls", "Number(document.getElementById('f-calls').textContent) > 5")
	refusing := usual
	refusing.Status, refusing.RetryAfter, refusing.Accepts = http.StatusTooManyRequests, time.Second, 10
	s.parts.Provider.Behave(refusing)
	b.Has("slow-configured", "of 300 that are configured")
	b.Until("429s are counted", "Number(document.getElementById('f-refused').textContent) > 0")
	b.Shoot("slowed")
	b.Accessible("while the provider refuses")
	s.parts.Provider.Behave(usual)
	b.Click("slow-release")
	b.Has("confirm-text", "The cap of 300 calls in any 1 s is in force at once")
	b.Click("confirm-yes")
	b.Until("the slowdown is over", "document.getElementById('slow').hidden")
	b.Fine()
}

// A campaign is cancelled by a rule. Its jobs become dead letters, which are listed. When the rule has ended they are replayed,
// and each is called once.
func TestAnOperatorCancelsAndReplays(t *testing.T) {
	path := browser.Path(t)
	const jobs, dropped = 120, 2
	s := newSite(t, 0)
	b := browser.Open(t, path, s.url)
	b.NodesReady(3)
	b.Has("letters-h", "Dead letters")
	cancels(b, s, jobs)
	showsLetters(b, jobs)

	// two rows are dropped
	browser.Eval[bool](b, "[...document.querySelectorAll('#letter-rows input')].slice(0, 2).forEach((box) => box.click()) === undefined")
	b.Has("settle-about", "the 2 chosen dead letters")
	b.Click("settle-drop")
	b.Has("settle-why-fault", "Say why")
	b.Types("settle-why", "tests of ours")
	b.Click("settle-drop")
	b.Has("confirm-h", "Drop the 2 chosen dead letters?")
	b.Click("confirm-yes")
	b.Has("settle-result", "The drop is over: 2 dropped")
	b.Has("letters-status", "118 dead letters of topic jobs")

	// with the rule they would be cancelled again
	b.Types("settle-why", "the price is right")
	b.Click("settle-replay")
	b.Has("confirm-text", "A rule that cancels jobs is in force")
	b.Click("confirm-no")
	endsRule(b)

	// the rest is replayed slowly, stopped, and replayed
	b.Click("letters-class-cancelled")
	b.Has("settle-about", "all dead letters of class cancelled (118)")
	b.Types("settle-rate", "5")
	b.Click("settle-replay")
	b.Has("confirm-text", "at most 5 jobs a second")
	b.Accessible("with the dialog of a replay")
	b.Shoot("replay-confirm")
	b.Click("confirm-yes")
	b.Until("it goes on", "document.querySelector('#run-rows progress') && Number(document.querySelector('#run-rows td:nth-child(3)').textContent.match(/(\\d+) replayed/)?.[1]) > 0")
	b.Shoot("replaying")
	b.Accessible("while letters are replayed")
	browser.Eval[bool](b, "document.querySelector('#run-rows button').click() === undefined")
	b.Has("settle-result", "stopped by")
	b.Types("settle-rate", "")
	b.Types("settle-why", "the price is right")
	b.Click("settle-replay")
	b.Click("confirm-yes")
	b.Has("settle-result", "The replay is over")
	b.Has("letters-status", "No dead letters of topic jobs")
	b.Until("no job waits", "document.getElementById('f-waiting').textContent === '0'")
	calls := s.calls("spring")
	for job, n := range calls {
		if n != 1 {
			t.Errorf("got %d calls of %s, want 1", n, job)
		}
	}
	if len(calls) != jobs-dropped {
		t.Errorf("got calls of %d jobs, want of all %d but the %d that were dropped", len(calls), jobs, dropped)
	}
	b.Fine()
}

// cancels makes a rule by the keyboard, and has jobs written that it cancels.
func cancels(b *browser.Tab, s *site, jobs int) {
	b.Helper()
	b.TabTo("rule-when")
	b.Press(`job.headers["campaign"] =`)
	b.Has("rule-preview", "Not an expression yet")
	b.Press(kb.Enter)
	b.Has("rule-why-fault", "Say why")
	b.Types("rule-why", "wrong price")
	b.Press(kb.Enter)
	b.Until("the fault stands next to the expression", "document.getElementById('rule-when-fault').textContent !== '' && document.activeElement.id === 'rule-when'")
	b.Shoot("rule-fault")
	b.Types("rule-when", `job.headers["campaign"] == "spring"`)
	b.Has("rule-preview", "No job is fetched now")
	b.Picks("rule-for", "custom")
	b.Types("rule-custom", "99")
	b.Click("rule-review")
	b.Click("confirm-yes")
	b.Has("rule-custom-fault", "must be within")
	b.Types("rule-custom", "3")
	b.Click("rule-review")
	b.Has("confirm-text", `this rule cancels jobs for which job.headers["campaign"] == "spring" is true.`)
	b.Accessible("with the dialog of a rule")
	b.Shoot("rule-confirm")
	b.Press(kb.Enter)
	b.Has("rule-result", "The jobs are cancelled. In force on 3/3 nodes after")
	b.Has("rule-rows", "wrong price")
	b.Accessible("with a rule in force")
	s.campaign("spring", jobs)
}

// showsLetters has the dead letters of the campaign listed.
func showsLetters(b *browser.Tab, jobs int) {
	b.Helper()
	b.Until("all are cancelled", fmt.Sprintf("document.getElementById('f-dead').textContent === 'cancelled %d'", jobs))
	b.Click("letters-show")
	b.Has("letters-status", fmt.Sprintf("%d dead letters of topic jobs", jobs))
	b.Until("a page of them is listed", "document.querySelectorAll('#letter-rows tr').length === 50 && document.querySelector('#letter-rows tr').textContent.includes('wrong price')")
	b.Click("letters-more")
	b.Until("more are listed", "document.querySelectorAll('#letter-rows tr').length === 100")
	b.Shoot("letters")
	b.Accessible("with dead letters")
	b.Scheme("dark")
	b.Do(chromedp.EmulateViewport(360, 780, chromedp.EmulateScale(2)))
	b.Shoot("letters-phone")
	b.Accessible("with dead letters on a phone in the dark")
	if wide := browser.Eval[float64](b, "document.documentElement.scrollWidth"); wide > 360 {
		b.Errorf("got %v px of width on a phone of 360", wide)
	}
	b.Scheme("light")
	b.Do(chromedp.EmulateViewport(1280, 900))
}

// endsRule ends the one rule.
func endsRule(b *browser.Tab) {
	b.Helper()
	b.Click("rule-end-1")
	b.Has("confirm-h", "End this rule?")
	b.Click("confirm-yes")
	b.Has("rule-result", "The rule has ended. In force on 3/3 nodes after")
	b.Until("the list is gone", "document.getElementById('rule-list').hidden")
}

// Held jobs wait, are counted by the preview, and are called when the rule has ended.
func TestAnOperatorHoldsJobs(t *testing.T) {
	path := browser.Path(t)
	const jobs = 150
	s := newSite(t, 4000)
	s.campaign("spring", jobs)
	b := browser.Open(t, path, s.url)
	b.NodesReady(3)
	b.Types("rule-when", `hasPrefix(job.id, "jobs-")`)
	b.Until("the nodes have counted", "/[1-9][\\d,]* of the [\\d,]+ fetched jobs match; those still in Kafka/.test(document.getElementById('rule-preview').textContent)")
	b.Click("rule-hold")
	b.Types("rule-why", "not at night")
	b.Shoot("rule")
	b.Click("rule-review")
	b.Has("confirm-text", "They wait. Others go past them.")
	b.Click("confirm-yes")
	b.Has("rule-result", "The jobs are held. In force on 3/3 nodes after")
	b.Until("it is in the list", "/Hold.*24:00:00|Hold.*23:59:/.test(document.getElementById('rule-rows').textContent)")
	b.Until("the others were called", "document.getElementById('f-calls').textContent === '0'")
	b.Shoot("held")
	b.Accessible("while jobs are held")
	endsRule(b)
	b.Until("the held jobs are called", "Number(document.getElementById('f-calls').textContent) > 0")
	b.Fine()
}

// Without news the page says that it knows nothing; then it goes on by itself.
func TestANodeGoesSilent(t *testing.T) {
	path := browser.Path(t)
	s := newSite(t, 20_000)
	b := browser.Open(t, path, s.url)
	b.Has("connection", "Live")
	s.goes()
	b.Has("health-state", "Unknown")
	b.Has("figures-age", "These figures are")
	b.Has("health-text", "Nothing was heard for")
	b.Shoot("silent")
	b.Accessible("without news")
	s.down.Store(false)
	b.Has("connection", "Live")
	b.Until("health is known", "document.getElementById('health-state').textContent !== 'Unknown' && document.getElementById('figures-age').hidden")
	b.Fine()
}

// A token is asked for where the API wants one, and is kept in the tab alone.
func TestAnOperatorSignsIn(t *testing.T) {
	path := browser.Path(t)
	const viewer, operator = "viewer-0123456789", "operator-0123456789"
	s := newSite(t, 5000, tokenOf(t, "paul", auth.Viewer, viewer), tokenOf(t, "anna", auth.Operator, operator))
	b := browser.Open(t, path, s.url)
	b.Has("sign-in-h", "Sign in")
	b.Shoot("sign-in")
	b.Accessible("at the sign-in")
	browser.Eval[string](b, `document.getElementById('token').value = 'hidden-\u200b0123456789'`) // pasted: keys can't write it
	b.Press(kb.Enter)
	b.Has("token-fault", "This text has others, maybe hidden ones")
	b.Until("no token that a header can't hold is kept", "sessionStorage.getItem('dispatcher.token') === null")
	b.Types("token", "wrong-0123456789abc")
	b.Press(kb.Enter)
	b.Has("token-fault", "This token is not known")
	b.Types("token", viewer)
	b.Press(kb.Enter)
	b.Has("connection", "Live")
	b.Until("the token is in the session alone", "sessionStorage.getItem('dispatcher.token').startsWith('viewer-') && Object.keys(localStorage).length === 0 && document.cookie === ''")
	b.Click("pause-button")
	b.Has("pause-fault", "may read and change nothing: that takes one of an operator")
	b.Click("sign-out")
	b.Has("sign-in-h", "Sign in")
	b.Until("the token is forgotten", "sessionStorage.getItem('dispatcher.token') === null")
	b.Types("token", operator)
	b.Press(kb.Enter)
	b.Has("connection", "Live")
	b.Until("the token names the operator", "document.getElementById('by-field').hidden")
	b.Click("pause-button")
	b.Has("pause-result", "Paused. In force on 3/3 nodes after")
	b.Has("resume-text", "anna")
	b.Fine()
}

// Nothing scrolls sideways on a phone, and both schemes can be read.
func TestItFitsThePhoneAndTheNight(t *testing.T) {
	path := browser.Path(t)
	s := newSite(t, 60_000)
	s.changes(http.MethodPatch, "", `{"cap": 260, "by": "Ada", "why": "the provider asked for it in ticket 4711, which has a long name", "for": "1h"}`)
	b := browser.Open(t, path, s.url)
	b.Until("the fleet calls", "Number(document.getElementById('f-calls').textContent) > 5")
	b.NodesReady(3)
	if browser.Watched() {
		b.Do(chromedp.Click(chromedp.CSS("#minute summary")))
		b.Until("the chart has a minute", "[...document.querySelectorAll('#minute-rows tr')].filter(r => r.cells[1].textContent !== '–').length > 55")
		b.Do(chromedp.Click(chromedp.CSS("#minute summary")))
	}
	b.Shoot("desktop")
	b.Scheme("dark")
	b.Shoot("dark")
	b.Accessible("in the dark")
	b.Do(chromedp.EmulateViewport(360, 780, chromedp.EmulateScale(2)))
	b.Until("the chart fits", "document.querySelector('.uplot').clientWidth < 360")
	b.Shoot("phone-dark")
	b.Scheme("light")
	b.Types("cap", "130")
	b.Has("preview-text", "jobs gone at")
	b.Shoot("phone")
	if wide := browser.Eval[float64](b, "document.documentElement.scrollWidth"); wide > 360 {
		t.Errorf("got %v px of width on a phone of 360", wide)
	}
	b.Accessible("on a phone")
	b.Fine()
}

// Times and changes are written for people, in the browser's zone.
func TestTextsForPeople(t *testing.T) {
	path := browser.Path(t)
	server := httptest.NewServer(page.Handler())
	t.Cleanup(server.Close)
	b := browser.Open(t, path, server.URL)
	b.Has("health-text", "Nothing is known of the fleet")
	got := browser.Eval[[]string](b, `import('/static/text.js').then(t => [
		t.inZone('Paused until 2026-07-01T23:30:00Z, last change by anna: 5 jobs wait.').replace(/2 Jul( 2026)?,? /, '2 Jul '),
		t.inZone('not before 2026-01-02T03:04:05.678Z').replace(/2 Jan( 2026)?,? /, '2 Jan '),
		[0.05, 2.5, 59.6, 125, 3600, 90000].map(t.lasting).join(', '),
		t.countdown(905) + ' ' + t.countdown(3725) + ' ' + t.countdown(-3),
		t.changes({cap: 300, window_s: 1, paused: false, guard_s: 0.01}, {cap: 150, window_s: 60, paused: true, guard_s: 0.01}).join(', '),
		t.changes({cap: 300, share: 0.99}, {cap: 300, share: 0.98}, true).join(),
		[null, 0, 12.34, 53475].map(t.number).join(' '),
	])`)
	want := []string{
		"Paused until 2 Jul 01:30:00 CEST, last change by anna: 5 jobs wait.", "not before 2 Jan 04:04:05 CET",
		"50 ms, 2.5 s, 1 min, 2 min 5 s, 1 h, 1 d 1 h", "15:05 1:02:05 0:00", "cap 300 → 150, window 1 s → 1 min, paused", "", "– 0 12.3 53,475",
	}
	for i, text := range want {
		if got[i] != text {
			t.Errorf("got %q, want %q", got[i], text)
		}
	}
	b.Fine()
}

// The figures follow a clock of Redis that was set back. An answer that comes late changes nothing.
func TestLawTheFiguresFollowAClockThatWasSetBack(t *testing.T) {
	path := browser.Path(t)
	server := httptest.NewServer(page.Handler())
	t.Cleanup(server.Close)
	b := browser.Open(t, path, server.URL)
	b.Has("health-text", "Nothing is known of the fleet")
	got := browser.Eval[[]string](b, `import('/static/chart.js').then(c => {
		const columns = (from, calls) => {
			const all = Array(5).fill(calls);
			return { from, calls: all, refused: all, units: all, cap: all.map(() => 100), effective: all.map(() => 100) };
		};
		return [[10_000, 50], [9_980, 70], [10_005, 60], [6_400, 0], [6_405, 10]].map(([from, calls]) => {
			const whole = c.merge(columns(from, calls));
			return [whole, c.sums().now, c.sums().share].join(' ');
		});
	})`)
	want := []string{"true 50 0.5", "true 50 0.6", "true 60 0.6", "false 0 0", "true 10 0.05"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	b.Fine()
}
