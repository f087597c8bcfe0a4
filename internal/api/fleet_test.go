package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"dispatcher/internal/figures"
	"dispatcher/internal/why"

	"dispatcher/internal/background"
)

// says publishes figures of the node.
func (s served) says(f figures.Figures) {
	s.Helper()
	f.Name = "node-1"
	p := figures.New(figures.Options{
		Redis: client(s.T, s.redis), Namespace: "default", Node: "node-1", Logger: slog.New(slog.DiscardHandler), Take: func(context.Context) figures.Figures { return f },
		Rules: func(int64) {},
	})
	background.Run(s.T, p.Run)
	s.until("the node has said its figures", func() bool {
		nodes := s.get("nodes").list
		return len(nodes) == 1 && nodes[0].(map[string]any)["stale"] == false
	})
}

// holds has a node answer each question about a job with that job.
func (s served) holds(job why.Job) {
	s.Helper()
	background.Run(s.T, why.New(why.Options{
		Redis: client(s.T, s.redis), Namespace: "default", Logger: slog.New(slog.DiscardHandler),
		Answer: func(why.Question) why.Answer { return why.Answer{Node: "node-1", Jobs: []why.Job{job}} },
	}).Run)
	s.until("a node answers", func() bool {
		return strings.Contains(s.ask(http.MethodGet, "why?job=a", "").text, `"behind":`)
	})
}

func busy() figures.Figures {
	return figures.Figures{
		Ready: true, Version: "v1",
		Lanes: []figures.Lane{{
			Name: "default", Waiting: 1200, PerS: 100, Fetched: 1000, Units: 1000, Expires: []figures.Expiring{{Among: 1000, Jobs: 1000, InS: 3}},
		}}, Topics: []figures.Topic{{Name: "jobs", Lag: 1200, Partitions: 6}},
		Limits: []figures.Limit{{Name: "provider", Waiting: 256, Binds: 1}}, DeadLetters: map[string]float64{"permanent": 3}, Cap: 400, Eff: 400,
		Keys: []figures.Key{{Limit: "recipient", Hash: "00112233445566778899aabbccddeeff", Jobs: 700, AtLeast: true}},
	}
}

func TestTheFleetIsShown(t *testing.T) {
	t.Parallel()
	s := serve(t)
	if got := s.get("health"); got.object["state"] != "unknown" {
		t.Errorf("got %v before a node said anything, want unknown", got.text)
	}
	s.says(busy())
	for path, want := range map[string]string{
		"health":   `"state":"limited"`,
		"overview": `"text":"The limit provider holds the jobs up, more nodes would not help: 1200 jobs wait."`,
		"lanes":    `"lanes":[{"name":"default","waiting":1200,`,
		"topics":   `"topics":[{"name":"jobs","lane":"","partitions":6,"lag":1200}]`,
		"keys":     `"keys":[{"limit":"recipient","hash":"00112233445566778899aabbccddeeff","jobs":700,"at_least":true}]`,
		"nodes":    `"version":"v1"`,
		"forecast": `"jobs":1200,`,
	} {
		if got := s.get(path); got.status != http.StatusOK || !strings.Contains(got.text, want) {
			t.Errorf("%s: got %d %s, want %s", path, got.status, got.text, want)
		}
	}
	s.until("the first second is over", func() bool { return strings.Contains(s.get("calls?seconds=5").text, `"cap":[null,null,null,`) == false })
	if got := s.get("calls?seconds=3601"); got.status != http.StatusUnprocessableEntity {
		t.Errorf("got %d for more than an hour, want 422", got.status)
	}
}

// A forecast for other settings changes nothing, and says what a guardrail would refuse.
func TestAChangeIsPreviewed(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.says(busy())
	half := s.get("forecast?cap=200").object
	if half["cap"] != 200.0 || half["left_s"].(float64) < 6 || half["left_s"].(float64) > 6.5 || half["refused"] != nil {
		t.Errorf("got %v, want 1200 jobs gone in about 6 s under 200/s", half)
	}
	if now := s.get("forecast").object; now["expire"] != 0.0 || half["fetched"] != 1000.0 || half["expire"].(float64) < 400 || half["expire"].(float64) > 420 {
		t.Errorf("got %v and %v, want all jobs called within 3 s under 400/s, and about 600 of 1000 under 200/s", now, half)
	}
	if much := s.get("forecast?cap=4000").object; !strings.Contains(much["refused"].(string), "max_step") {
		t.Errorf("got %v, want the guardrail named", much)
	}
	if bad := s.get("forecast?cap=-3"); bad.status != http.StatusUnprocessableEntity || !strings.Contains(bad.text, `"field":"cap"`) {
		t.Errorf("got %d %s, want the field named", bad.status, bad.text)
	}
	if bad := s.get("forecast?colour=red"); bad.status != http.StatusUnprocessableEntity || !strings.Contains(bad.text, "colour") {
		t.Errorf("got %d %s, want the unknown name refused", bad.status, bad.text)
	}
	if got := s.get("limits/provider").object["cap"]; got != 400.0 {
		t.Errorf("got a cap of %v, want it unchanged", got)
	}
}

func TestWhyNeedsOneName(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, path := range []string{"why", "why?job=a&limit=b", "why?job=&limit=b", "why?job=a&limit="} {
		if got := s.get(path); got.status != http.StatusUnprocessableEntity || !strings.Contains(got.text, "name a job or a limit") {
			t.Errorf("%s: got %d %s, want 422", path, got.status, got.text)
		}
	}
}

// All pages of a node share one reading; each gets an event at once.
func TestPagesGetTheFleetsStateAsItChanges(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.says(busy())
	for range 2 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"events", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
			t.Errorf("got %q, want an event stream", kind)
		}
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		for want := 2; want > 0 && lines.Scan(); {
			data, is := strings.CutPrefix(lines.Text(), "data: ")
			if !is {
				continue
			}
			want--
			if err := theDocument().validate("#/components/schemas/LiveOverview", []byte(data)); err != nil {
				t.Errorf("the event is not as openapi.yaml has it: %v", err)
			}
			var e struct {
				Health struct{ State string }
				Limit  struct{ Cap int }
				Calls  struct{ Calls []*float64 }
			}
			if err := json.Unmarshal([]byte(data), &e); err != nil || e.Health.State != "limited" || e.Limit.Cap != 400 || len(e.Calls.Calls) == 0 {
				t.Errorf("got %+v and %v of %s, want the fleet's state", e, err, data)
			}
		}
		if lines.Err() != nil {
			t.Fatal(lines.Err())
		}
	}
}
