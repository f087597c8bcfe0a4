package api_test

import (
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/internal/background"
	"dispatcher/internal/embedded"
	"dispatcher/internal/node"
	"dispatcher/job"
	"dispatcher/throttle"
)

var (
	schemathesis = flag.String("schemathesis", "", "path of schemathesis, for TestSchemathesis; empty: it is skipped")
	lasts        = flag.Duration("schemathesis-for", 5*time.Minute, "how long schemathesis runs, in all")
)

// Schemathesis makes requests from the document, to nodes that work. At first it may do all, with any names and then with that of
// the first limit. At last it has the token of a viewer, which changes nothing. `make api` runs it.
func TestSchemathesis(t *testing.T) {
	if *schemathesis == "" {
		t.Skip("no -schemathesis: make api runs it")
	}
	all, viewer := nodes(t)
	all.schemathesis(*lasts*2/5, "")
	all.schemathesis(*lasts*2/5, "provider")
	before := changes(viewer)
	viewer.schemathesis(*lasts/5, "provider")
	if after := changes(viewer); after != before {
		t.Errorf("a viewer changed something: got\n%s, want\n%s", after, before)
	}
}

// changes are those that were made over HTTP. Others are made when an override ends.
func changes(s served) (text string) {
	for _, path := range []string{"limits/provider/history?n=1000", "limits/recipient/history?n=1000", "rules/history?n=1000"} {
		for _, c := range s.must(s.get(path), 200).list {
			if by, _ := c.(map[string]any)["by"].(string); strings.Contains(by, " from ") {
				text += fmt.Sprintln(path, c)
			}
		}
	}
	return text
}

// nodes runs two nodes with a long backlog. The first one asks for no token, the second one is asked with that of a viewer.
func nodes(t *testing.T) (all, viewer served) {
	t.Helper()
	who := callers(t)
	parts, err := embedded.New(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := parts.Provider.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	background.Run(t, parts.Run)
	jobs, err := consumer.NewProducer(consumer.ProducerOptions{Connection: consumer.Connection{Brokers: parts.Brokers()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = jobs.Close() })
	backlog := make([]job.Record, 50_000)
	for i := range backlog {
		backlog[i] = job.Record{Key: fmt.Append(nil, i), Value: fmt.Appendf(nil, `{"id":"job-%d","to":"%d"}`, i, i%997)}
	}
	if err := jobs.WriteBatch(t.Context(), embedded.Topic, backlog); err != nil {
		t.Fatal(err)
	}
	all = nodeOn(t, parts, "open", file)
	viewer = nodeOn(t, parts, "guarded", file+fmt.Sprintf("admin: {auth: {tokens: [{name: v, role: viewer, file: %s}]}}\n", who.Tokens[0].File))
	viewer.token = tokenIn(t, who.Tokens[0].File)
	viewer.until("the nodes work", func() bool {
		return len(viewer.get("nodes").list) == 2 && viewer.get("health").object["state"] == "limited"
	})
	return all, viewer
}

// nodeOn runs a node with a configuration, and returns once its port is open.
func nodeOn(t *testing.T, parts *embedded.Parts, name, text string) served {
	t.Helper()
	free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	_ = free.Close()
	path := filepath.Join(t.TempDir(), "dispatcher.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := configs.Load(configs.Source{File: path, Set: append(parts.Settings(), "node="+name, "admin.listen="+addr)})
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.New(cfg, slog.New(slog.DiscardHandler), throttle.IdentityNone)
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, n.Run)
	s := served{T: t, url: "http://" + addr + "/api/v1/"}
	s.until("the port is open", func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return s
}

// settings of schemathesis. A PATCH without If-Match gets 428, and one with a bad If-Match 412. 503 is no fault: no node may work
// under the settings that schemathesis made, and a busy machine answers late.
const settings = `
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]
missing_required_header.expected-statuses = ["400", "401", "403", "422", "428"]
negative_data_rejection.expected-statuses = ["400", "401", "403", "404", "405", "409", "412", "413", "422", "428", "429", "431", "503"]
`

// schemathesis makes requests for a time, with this name of a limit; empty: with any. It leaves out the stream of events, which
// has no end. It does not demand that each request is accepted that the schemas allow, since values depend on one another. Another
// test checks the header Allow.
func (s served) schemathesis(lasts time.Duration, limit string) {
	s.Helper()
	const workers, slowest = "2", "12" // seconds: the server gives up after five, and a busy machine is slow
	dir, text := s.TempDir(), settings
	if limit != "" {
		text = fmt.Sprintf("[parameters]\nname = %q\n", limit) + settings
	}
	if err := os.WriteFile(filepath.Join(dir, "schemathesis.toml"), []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	c := exec.CommandContext(s.Context(), *schemathesis, "run", s.url+"openapi.json", "--exclude-path", "/events",
		"--workers", workers, "--max-time", fmt.Sprint(int(lasts.Seconds())), "--request-timeout", slowest, "--continue-on-failure",
		"--checks", "all", "--exclude-checks", "positive_data_acceptance,ignored_auth,allow_header_conformance", "--generation-database", "none", "--no-color")
	if s.token != "" {
		c.Args = append(c.Args, "--header", "Authorization: Bearer "+s.token)
	}
	c.Dir = dir
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		s.Errorf("schemathesis: %v", err)
	}
}
