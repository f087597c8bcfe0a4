package node

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/twmb/franz-go/pkg/kfake"

	"dispatcher/admin"
	"dispatcher/configs"
	"dispatcher/internal/background"
	"dispatcher/throttle"
)

// A node calls no job before it has read the rules, so it is not ready before.
func TestANodeIsNotReadyBeforeItHasReadTheRules(t *testing.T) {
	t.Parallel()
	n := nodeOfItsOwn(t)
	if got := failure(t, n, "rules"); !strings.Contains(got, "were not read yet") {
		t.Errorf("got %q before the rules were read, want that they were not", got)
	}
	background.Run(t, n.rules.Run)
	n.rules.Await(t.Context())
	if got := failure(t, n, "rules"); got != "" {
		t.Errorf("got %q after the rules were read, want no failure", got)
	}
}

func TestTheReferenceListsAllChecks(t *testing.T) {
	t.Parallel()
	_, list, _ := strings.Cut(read(t, "../../docs/reference.md"), "`GET /readyz` |")
	list, _, _ = strings.Cut(list, "\n")
	for _, c := range nodeOfItsOwn(t, "dedup.enabled=true").healthChecks() {
		if !strings.Contains(list, "`"+c.Name+"`") {
			t.Errorf("docs/reference.md does not list the check %s of /readyz", c.Name)
		}
	}
}

// nodeOfItsOwn has a broker and a Redis of its own, and does not run.
func nodeOfItsOwn(t *testing.T, set ...string) *Node {
	t.Helper()
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "jobs"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	set = append(set, "kafka.brokers="+kafka.ListenAddrs()[0], "redis.addrs="+miniredis.RunT(t).Addr(), "admin.listen=", "limits.0.cap=1000")
	cfg, err := configs.Load(configs.Source{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	n, err := New(cfg, slog.New(slog.DiscardHandler), throttle.IdentityNone)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.close)
	return n
}

// failure is the error of a check of a node.
func failure(t *testing.T, n *Node, name string) string {
	t.Helper()
	for _, c := range admin.Ask(t.Context(), n.checks).Checks {
		if c.Name == name {
			return c.Error
		}
	}
	t.Fatalf("the node has no check %s", name)
	return ""
}
