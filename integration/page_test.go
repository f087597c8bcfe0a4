package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"dispatcher/internal/browser"
	"dispatcher/internal/containers"
)

const (
	pageCap  = 300
	pageJobs = 16_000 // a machine that is slow still has some when the operators cross
	campaign = 60     // more jobs, which a rule cancels
)

// Operators use the pages of two nodes in a real browser, Ada by the keyboard alone: they change the rate, pause, forget the pause,
// take a change back, get in one another's way, cancel a campaign and replay it. The provider's counts follow, no window is over what was in force,
// and each job is sent once.
func TestPageReal(t *testing.T) {
	path := browser.Path(t)
	w := startServers(t, containers.Kafka)
	s := w.scene(t, pageCap, 6, 20*time.Millisecond)
	s.enqueue(t, pageJobs)
	s.start(t, 3)
	s.judge.count(t, 2*pageCap, time.Minute)
	ada := browser.Open(t, path, "http://"+s.nodes[0].admin)
	bob := browser.Open(t, path, "http://"+s.nodes[1].admin)
	for _, b := range []*browser.Tab{ada, bob} {
		b.Has("health-text", "The limit provider holds the jobs up")
		b.NodesReady(3)
	}
	s.ratesAreLowered(t, ada)
	s.pausesAreForgotten(t, ada, bob)
	changesAreUndone(ada)
	operatorsCross(ada, bob)
	looks(ada)
	s.settled(t, 2*time.Minute)
	s.campaignsAreCancelled(t, ada)
	ada.Fine()
	bob.Fine()
	s.judgeByHistory(t)
	s.finishOnce(t, pageJobs+campaign)
}

// ratesAreLowered has the calls follow a lower rate within a second.
func (s *scene) ratesAreLowered(t *testing.T, b *browser.Tab) {
	t.Helper()
	b.FillsRate("150", "the provider asked for it", "Ada")
	b.Enter("rate-review")
	b.Has("confirm-text", "From 300 calls in any 1 s to 150 calls in any 1 s, until somebody changes it.")
	pressed := time.Now()
	b.Agrees()
	b.Has("rate-result", "The cap is 150. In force on 3/3 nodes after")
	t.Logf("%q, as the page has it %v after the key was pressed", b.Text("rate-result"), time.Since(pressed).Round(time.Millisecond))
	b.Until("the page shows the calls", "Math.abs(Number(document.getElementById('f-calls').textContent) - 150) <= 10")
	b.Shoot("real-lowered")

	from := pressed.Add(time.Second).Sub(s.judge.epoch(t))
	eventually(t, time.Minute, func() bool { return s.now(t) > from+2*time.Second }, func() string { return "no call comes" })
	calls := 0
	for _, at := range callsFrom(s.judge.arrivals(t), "") {
		if at >= from && at < from+2*time.Second {
			calls++
		}
	}
	t.Logf("%d calls in the two seconds that began one second after the key was pressed", calls)
	if calls > 2*150 {
		t.Errorf("got %d calls in two seconds, want at most 300", calls)
	}
	figure(t, calls > 2*150*9/10, "got %d calls in two seconds, want them near 300", calls)
}

// pausesAreForgotten: nobody resumes, and the calls go on by themselves.
func (s *scene) pausesAreForgotten(t *testing.T, b, other *browser.Tab) {
	t.Helper()
	browser.Eval[bool](b, "document.getElementById('pause-for').add(new Option('10 seconds', '10s')) === undefined") // shorter than people need
	b.Picks("pause-for", "10s")
	b.Enter("pause-button")
	b.Has("pause-result", "Paused. In force on 3/3 nodes after")
	b.Has("health-state", "Paused")
	other.Has("resume-text", "until it resumes by itself")
	b.Until("nothing is called", "document.getElementById('f-calls').textContent === '0'")
	b.Shoot("real-paused")
	b.Until("it goes on by itself", "document.getElementById('pause-h').textContent === 'Pause' && Number(document.getElementById('f-calls').textContent) > 100")
	other.Has("pause-button", "Pause")
	gap, _ := longestGap(callsFrom(s.judge.arrivals(t), ""), 0)
	t.Logf("no call for %v while the fleet was paused for 10s", gap.Round(time.Millisecond))
	if gap < 9*time.Second {
		t.Errorf("got no call for %v, want that for most of the 10 s", gap)
	}
}

// changesAreUndone takes the first change back, and that again.
func changesAreUndone(b *browser.Tab) {
	b.Helper()
	b.Enter("pause-button")
	b.Has("pause-result", "Paused. In force on 3/3 nodes after")
	b.Enter("resume-button")
	b.Has("pause-result", "Resumed. In force on 3/3 nodes after")
	b.Undoable("resumed")
	b.Enter("undo")
	b.Has("confirm-text", "Undo makes: paused, until")
	b.Agrees()
	b.Has("undo-result", "Undone. In force on 3/3 nodes after")
	b.Has("health-state", "Paused")
	b.Enter("resume-button")
	b.Has("pause-result", "Resumed. In force on 3/3 nodes after")
	b.Has("pause-button", "Pause")
}

// operatorsCross: the slower one learns what the other did, and decides again.
func operatorsCross(ada, bob *browser.Tab) {
	ada.Helper()
	ada.Writes("cap", "500")
	ada.Writes("why", "more is allowed")
	ada.Has("preview-text", "gone at")
	ada.Enter("rate-review")
	ada.Has("confirm-text", "From 150 calls")
	bob.Knows(ada.Revision())
	bob.Types("cap", "280")
	bob.Types("why", "an incident")
	bob.Types("by", "Bob")
	bob.Click("rate-review")
	bob.Click("confirm-yes")
	bob.Has("rate-result", "The cap is 280. In force on 3/3 nodes after")
	ada.Agrees()
	ada.Has("rate-meanwhile", "Bob from 127.0.0.1 changed the limit meanwhile: cap 150 → 280")
	ada.Has("rate-meanwhile", "Nothing of yours was changed")
	ada.Shoot("real-conflict")
	ada.Enter("rate-review")
	ada.Has("confirm-text", "From 280 calls")
	ada.Agrees()
	ada.Has("rate-result", "The cap is 500. In force on 3/3 nodes after")
	bob.Has("rate-now", "500 calls in any 1 s")
}

// looks takes pictures for people.
func looks(b *browser.Tab) {
	b.Helper()
	b.Shoot("real-desktop")
	b.Accessible("on real servers")
	b.Scheme("dark")
	b.Shoot("real-dark")
	b.Do(chromedp.EmulateViewport(360, 780, chromedp.EmulateScale(2)))
	b.Shoot("real-phone")
	b.Accessible("on a phone in the dark, on real servers")
	b.Scheme("light")
	b.Do(chromedp.EmulateViewport(1280, 900))
}

// campaignsAreCancelled has a rule cancel jobs, and replays their dead letters when the rule has ended.
func (s *scene) campaignsAreCancelled(t *testing.T, b *browser.Tab) {
	t.Helper()
	b.Writes("rule-when", `job.headers["campaign"] == "spring"`)
	b.Has("rule-preview", "No job is fetched now")
	b.Writes("rule-why", "wrong price")
	b.Enter("rule-review")
	b.Agrees()
	b.Has("rule-result", "The jobs are cancelled. In force on 3/3 nodes after")
	s.campaign(t, campaign)
	b.Until("all are cancelled", fmt.Sprintf("document.getElementById('f-dead').textContent === 'cancelled %d'", campaign))
	b.Enter("rule-end-1")
	b.Agrees()
	b.Has("rule-result", "The rule has ended. In force on 3/3 nodes after")
	b.Enter("letters-show")
	b.Has("letters-status", fmt.Sprintf("%d dead letters of topic %s", campaign, s.topic))
	b.Shoot("real-letters")
	b.Writes("settle-why", "the price is right")
	b.Enter("settle-replay")
	b.Agrees()
	b.Has("settle-result", "The replay is over: 60 replayed")
	s.judge.count(t, pageJobs+campaign, time.Minute)
	b.Enter("letters-show")
	b.Has("letters-status", "No dead letters of topic "+s.topic)
}
