package embedded_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"dispatcher/internal/audit"
	"dispatcher/internal/background"
	"dispatcher/internal/embedded"
	"dispatcher/internal/provider"
	"dispatcher/internal/redrive"
)

// operator asks a node's API.
type operator struct {
	t   *testing.T
	url string
}

func (o operator) ask(method, path, body string, status int, into any) {
	o.t.Helper()
	r, err := http.NewRequestWithContext(o.t.Context(), method, o.url+path, bytes.NewBufferString(body))
	if err != nil {
		o.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		o.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var text json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&text); err != nil || resp.StatusCode != status {
		o.t.Fatalf("%s %s: got %d %s and %v, want %d", method, path, resp.StatusCode, text, err, status)
	}
	if err := json.Unmarshal(text, into); err != nil {
		o.t.Fatalf("%s: %v", text, err)
	}
}

func (o operator) run(id string) (r redrive.Run) {
	o.t.Helper()
	o.ask(http.MethodGet, "redrives/"+id, "", http.StatusOK, &r)
	return r
}

// pages counts the open dead letters, page by page.
func (o operator) pages() (n int) {
	o.t.Helper()
	for next := ""; ; {
		var page struct {
			Letters []struct{ ID, Class string }
			Next    string
		}
		o.ask(http.MethodGet, "dead-letters?class=permanent&limit=70&after="+next, "", http.StatusOK, &page)
		n += len(page.Letters)
		if next = page.Next; next == "" {
			return n
		}
	}
}

// withDeadLetters is a fleet of two nodes whose provider refused all jobs, and is well again.
func withDeadLetters(t *testing.T, jobs int) (p *embedded.Parts, one, two operator, stop func()) {
	t.Helper()
	p = begin(t, embedded.Options{Provider: provider.Options{Behaviour: provider.Behaviour{Status: http.StatusBadRequest}}})
	enqueue(t, p, jobs)
	one, two, stop = twoNodes(t, p)
	settle(t, p)
	await(t, func() bool { return p.Dead() == int64(jobs) })
	p.Provider.Behave(provider.Behaviour{})
	return p, one, two, stop
}

func twoNodes(t *testing.T, p *embedded.Parts) (one, two operator, stop func()) {
	t.Helper()
	f, err := embedded.NewFleet(p, 2, logger(t), "limits.0.cap=1000", "admin.listen=127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := func(n int) operator { return operator{t, "http://" + f.Nodes[n].AdminAddr() + "/api/v1/"} }
	return at(0), at(1), background.Run(t, f.Run)
}

// calledTwice waits until each job was called exactly twice: once before it was a dead letter, and once after.
func calledTwice(t *testing.T, p *embedded.Parts, jobs int) {
	t.Helper()
	await(t, func() bool { return p.Provider.Count() >= 2*jobs })
	settle(t, p)
	calls := map[string]int{}
	for _, a := range p.Provider.Arrivals() {
		calls[a.Key]++
	}
	for n := range jobs {
		if id := fmt.Sprintf("job-%d", n); calls[id] != 2 {
			t.Errorf("got %d calls of %s, want one before and one after", calls[id], id)
		}
	}
}

// Dead letters are replayed over HTTP, at a rate. The run is stopped half-way from another node, and started again. Each job is
// called exactly once more.
func TestDeadLettersAreReplayedInTheBackground(t *testing.T) {
	t.Parallel()
	const jobs = 200
	p, one, two, _ := withDeadLetters(t, jobs)
	if n := two.pages(); n != jobs {
		t.Errorf("got %d open letters listed, want %d", n, jobs)
	}
	var run redrive.Run
	one.ask(http.MethodPost, "dead-letters/replay", `{"class":["permanent"],"rate":20,"why":"the provider is well again","by":"anna"}`, http.StatusAccepted, &run)
	var busy struct{ Detail string }
	two.ask(http.MethodPost, "dead-letters/drop", `{"all":true}`, http.StatusConflict, &busy)
	await(t, func() bool { return two.run(run.ID).Done >= 20 })
	two.ask(http.MethodPost, "redrives/"+run.ID+"/stop", `{"why":"not so fast"}`, http.StatusOK, &run)
	await(t, func() bool { return two.run(run.ID).State == redrive.Stopped })
	run = two.run(run.ID)
	if run.Done == 0 || run.Done >= jobs || run.Done+run.Left > run.Matched || run.Node != "node-1" {
		t.Errorf("got %+v, want it stopped half-way", run)
	}
	if open := one.pages(); int64(open) != jobs-run.Done {
		t.Errorf("got %d letters open, want those that were not replayed, of %d %d", open, jobs, run.Done)
	}
	var again redrive.Run
	two.ask(http.MethodPost, "dead-letters/replay", `{"class":["permanent"]}`, http.StatusAccepted, &again)
	await(t, func() bool { return one.run(again.ID).State == redrive.Done })
	if again = one.run(again.ID); again.Done != jobs-run.Done || again.Read != again.ToRead {
		t.Errorf("got %+v, want the other %d", again, jobs-run.Done)
	}
	calledTwice(t, p, jobs)
	if n := one.pages(); n != 0 {
		t.Errorf("got %d letters open, want none", n)
	}
	var history []audit.Event
	one.ask(http.MethodGet, "redrives/history", "", http.StatusOK, &history)
	if len(history) != 5 || history[4].By != "anna from 127.0.0.1" {
		t.Errorf("got %+v, want two starts, two ends and one stop", history)
	}
}

// A run ends with its node, and says so. What it did stays done: after a new start each job is called exactly once more.
func TestARedriveEndsWithItsNode(t *testing.T) {
	t.Parallel()
	const jobs = 100
	p, one, two, stop := withDeadLetters(t, jobs)
	var run redrive.Run
	one.ask(http.MethodPost, "dead-letters/replay", `{"all":true,"rate":10}`, http.StatusAccepted, &run)
	await(t, func() bool { return two.run(run.ID).Done >= 10 })
	stop()
	one, two, _ = twoNodes(t, p)
	await(t, func() bool { return one.answers() })
	if run = one.run(run.ID); run.State != redrive.Stopped || run.Error != "its node ended" || run.Done >= jobs {
		t.Errorf("got %+v, want it stopped with its node", run)
	}
	two.ask(http.MethodPost, "dead-letters/replay", `{"all":true}`, http.StatusAccepted, &run)
	await(t, func() bool { return one.run(run.ID).State == redrive.Done })
	calledTwice(t, p, jobs)
}

// answers tells whether the node's API answers already.
func (o operator) answers() bool {
	o.t.Helper()
	r, err := http.NewRequestWithContext(o.t.Context(), http.MethodGet, o.url+"redrives", nil)
	if err != nil {
		o.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
