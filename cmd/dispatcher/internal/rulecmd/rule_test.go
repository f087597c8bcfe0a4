package rulecmd

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/cmd/dispatcher/internal/clitest"
	"dispatcher/internal/background"
	"dispatcher/internal/embedded"
	"dispatcher/internal/why"
)

// scene is a fleet of two nodes on embedded parts.
type scene struct {
	*testing.T

	parts *embedded.Parts
}

func newScene(t *testing.T) scene {
	t.Helper()
	parts, err := embedded.New(embedded.Options{Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := parts.Provider.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	background.Run(t, parts.Run)
	fleet, err := embedded.NewFleet(parts, 2, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, fleet.Run)
	s := scene{t, parts}
	clitest.Await(t, time.Minute, "a fleet of two nodes", func() bool {
		return strings.Contains(s.run(NewRules, "rules", "list", "--json").Out, `"of":2`)
	})
	return s
}

func (s scene) run(command func(*cli.Settings) *cobra.Command, args ...string) clitest.Outcome {
	s.Helper()
	for _, one := range s.parts.Settings() {
		args = append(args, "--set", one)
	}
	return clitest.Run(s.Context(), command, "", nil, args...)
}

func TestRulesAreMadeListedAndEnded(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.run(NewRules, "rules", "list").MustPrint(t, "no rule is in force")
	const when = `job.headers["campaign"] == "spring"`
	s.run(NewCancel, "cancel", "--when", when, "--preview").MustPrint(t, "0 of the 0 jobs that 2 nodes have fetched match")
	s.run(NewCancel, "cancel", "--when", when, "--for", "24h", "--why", "wrong price", "--by", "anna").
		MustPrint(t, "rule 1: cancel when ", ", until 20", "in force on 2/2 nodes after ")
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	o := s.run(NewHold, "hold", "--when", `job.lane == "news"`, "--until", until, "--json")
	o.MustPrint(t)
	var made struct {
		ID      string
		Kind    string
		Until   string
		By      string
		InForce struct{ Nodes, Of int } `json:"in_force"`
	}
	if err := json.Unmarshal([]byte(o.Out), &made); err != nil || made.ID != "2" || made.Kind != "hold" || made.Until != until || made.By == "" || made.InForce.Nodes != 2 {
		t.Errorf("got %+v and %v of %s", made, err, o.Out)
	}
	s.run(NewRules, "rules", "list").MustPrint(t, "RULE", when, "wrong price", "anna", "hold", "in force on 2/2 nodes")
	s.run(NewRules, "rules", "end", "1", "--why", "the price is right", "--by", "bert").MustPrint(t, "rule 1: cancel when", "ended, in force on 2/2 nodes")
	s.run(NewRules, "rules", "end", "1").MustFail(t, "there is no such rule")
	s.run(NewRules, "rules", "history", "-n", "2").MustPrint(t, "bert  1 ended: the price is right", "2 hold when")
}

func TestRulesThatCanNotBeKeptNameTheFlag(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for want, args := range map[string][]string{
		`--when: ""`:           {"--for", "1h"},
		`unknown name`:         {"--when", "colour == 1", "--for", "1h"},
		`say when the rule`:    {"--when", "true"},
		`--for: -1h0m0s: must`: {"--when", "true", "--for", "-1h"},
		`must be a time such`:  {"--when", "true", "--until", "tomorrow"},
		`in the future`:        {"--when", "true", "--until", "2020-01-01T00:00:00Z"},
		`within 744h`:          {"--when", "true", "--for", "9999h"},
	} {
		s.run(NewCancel, append([]string{"cancel"}, args...)...).MustFail(t, want)
	}
	s.run(NewRules, "rules", "history", "-n", "0").MustFail(t, "--number")
	s.run(NewRules, "rules", "list").MustPrint(t, "no rule is in force")
	clitest.Run(t.Context(), NewCancel, "", nil, "cancel", "--when", "true", "--for", "1h", "--set", "limits.0.scope=node").MustFail(t, "each node keeps a limit of its own")
}

// Where no node works nobody has confirmed the rule, which is made all the same.
func TestLawARuleThatNoNodeKnowsIsAnError(t *testing.T) {
	t.Parallel()
	redis := miniredis.RunT(t)
	run := func(command func(*cli.Settings) *cobra.Command, args ...string) clitest.Outcome {
		return clitest.Run(t.Context(), command, "", nil, append(args, "--set", "redis.addrs="+redis.Addr(), "--set", "redis.namespace=elsewhere")...)
	}
	const none = `the change is made, but no node works here; it holds for those that start. If nodes should work, check redis.addrs, redis.namespace: "elsewhere"`
	made := run(NewCancel, "cancel", "--when", "true", "--for", "1h")
	made.MustFail(t, none)
	if !strings.HasPrefix(made.Out, "rule 1: cancel when true, until ") || strings.Contains(made.Out, "in force") {
		t.Errorf("got %s", made.Out)
	}
	run(NewHold, "hold", "--when", "true", "--for", "1h", "--json").MustFail(t, none)
	run(NewRules, "rules", "end", "1").MustFail(t, none)
	run(NewRules, "rules", "list").MustPrint(t, "hold")

	redis.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
		if command == "HGET" {
			c.WriteError("ERR away")
		}
		return command == "HGET"
	})
	unread := run(NewCancel, "cancel", "--when", "true", "--for", "1h")
	unread.MustFail(t, "the change is made, but which nodes know it could not be read: ")
	if !strings.HasPrefix(unread.Out, "rule 3: cancel") {
		t.Errorf("got %s", unread.Out)
	}
}

// A script would take a count that lacks a node for the count of the fleet.
func TestAPreviewFailsWhereANodeIsSilent(t *testing.T) {
	t.Parallel()
	for _, asJSON := range []bool{false, true} {
		var out strings.Builder
		m := why.Count{Nodes: 2, Matching: why.Matching{Jobs: 3, Held: 7}}
		if err := printCount(&out, m, asJSON); err != nil {
			t.Errorf("got %v where both nodes answered, want none", err)
		}
		m.Silent = []string{"node-2"}
		if err := printCount(&out, m, asJSON); err == nil || !strings.Contains(err.Error(), "1 of 2 nodes did not answer, so more jobs may match: node-2") {
			t.Errorf("got %v, want the silent node named", err)
		}
		if want := "3 of the 7 jobs that 1 nodes have fetched match"; !asJSON && !strings.Contains(out.String(), want) {
			t.Errorf("got %s, want %q", out.String(), want)
		}
	}
}
