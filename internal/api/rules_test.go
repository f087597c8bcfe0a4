package api_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestRulesAreMadeAndEndedOverHTTP(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.says(busy())
	made := s.ask(http.MethodPost, "rules", `{"kind": "cancel", "when": "job.headers[\"campaign\"] == \"spring\"", "for": "24h", "why": "wrong price", "by": "anna"}`)
	if made.status != http.StatusOK || made.object["id"] != "1" || made.object["by"] != "anna from 127.0.0.1" {
		t.Fatalf("got %d %s, want the rule", made.status, made.text)
	}
	if lacking := made.object["in_force"].(map[string]any)["lacking"].([]any); len(lacking) != 1 {
		t.Errorf("got %v, want the node named that does not know the rule", made.text)
	}
	if all := s.get("rules"); !strings.Contains(all.text, `"why":"wrong price"`) {
		t.Errorf("got %s, want the rule listed", all.text)
	}
	if ended := s.ask(http.MethodDelete, "rules/1", `{"why": "right again"}`); ended.status != http.StatusOK {
		t.Errorf("got %d %s", ended.status, ended.text)
	}
	if again := s.ask(http.MethodDelete, "rules/1", ""); again.status != http.StatusNotFound {
		t.Errorf("got %d %s, want 404", again.status, again.text)
	}
	if history := s.get("rules/history"); !strings.Contains(history.text, "1 ended: right again") {
		t.Errorf("got %s", history.text)
	}
	if preview := s.get("rules/preview?when=true"); preview.status != http.StatusOK || !strings.Contains(preview.text, `"silent":["node-1"]`) {
		t.Errorf("got %d %s, want the node named that does not answer", preview.status, preview.text)
	}
	for body, want := range map[string]string{
		`{"kind": "stop", "when": "true", "for": "1h"}`:         `"field":"kind"`,
		`{"kind": "hold", "when": "job.colour", "for": "1h"}`:   `"field":"when"`,
		`{"kind": "hold", "when": "true"}`:                      `"field":"until"`,
		`{"kind": "hold", "when": "true", "until": "tomorrow"}`: `"field":"until"`,
		`{"kind": "hold", "when": 7, "for": "1h"}`:              `"remedy":"must be text"`,
	} {
		if got := s.ask(http.MethodPost, "rules", body); got.status != http.StatusUnprocessableEntity || !strings.Contains(got.text, want) {
			t.Errorf("%s: got %d %s, want %s", body, got.status, got.text, want)
		}
	}
}
