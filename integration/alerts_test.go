package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.yaml.in/yaml/v3"

	"dispatcher/internal/containers"
	"dispatcher/internal/watched"
)

const alertsFile = "../deploy/prometheus/alerts.yml"

// A real Prometheus finds on each of three nodes every metric that the dashboard and the alerts name, and every query of the dashboard
// yields data.
func TestScrapeReal(t *testing.T) {
	needPrometheus(t)
	w := startServers(t, containers.Kafka)
	s := w.scene(t, 200, 6, faultLatency)
	s.start(t, 3)
	p := s.startPrometheus(t)
	s.load(t, 2000, "plain")
	board, err := watched.ReadDashboard("../deploy/grafana/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	alerts, err := watched.ReadAlerts(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	queries := board.Expressions()
	all := slices.Clone(queries)
	for _, a := range alerts {
		all = append(all, a.Expression())
	}
	names := make(map[string]bool)
	for _, e := range all {
		for _, m := range e.Metrics() {
			names[m.Name] = true
		}
	}
	for _, name := range ofLaterLimits() {
		delete(names, name)
	}
	for name := range names {
		query := fmt.Sprintf("count(count by (instance) (%s)) == 3", name)
		eventually(t, time.Minute, func() bool { return len(p.query(t, query)) == 1 }, func() string { return "not all nodes export " + name })
	}
	variables := strings.NewReplacer("$__rate_interval", "15s", "$job", "dispatcher", "$limit", ".*")
	for _, e := range queries {
		query := variables.Replace(e.Text)
		empty := slices.ContainsFunc(ofLaterLimits(), func(name string) bool { return strings.Contains(query, name) })
		eventually(t, time.Minute, func() bool { return empty || len(p.query(t, query)) > 0 },
			func() string { return fmt.Sprintf("the panel %q has no data: %s", e.Where, query) })
	}
	t.Logf("%d metrics on three nodes, %d queries of the dashboard with data", len(names), len(queries))
}

// ofLaterLimits are metrics that have no series where there is one limit.
func ofLaterLimits() []string {
	return []string{"dispatcher_limit_blocks_total", "dispatcher_limit_waiting_jobs"}
}

// Each cause makes its alert fire, and the alert ends when the cause does. Before that none fires, but those that a busy machine can
// bring about. The rules are those of deploy/, but that each looks ten seconds back where those look minutes back, and fires after eight.
func TestAlertsReal(t *testing.T) {
	needPrometheus(t)
	w := startServers(t, containers.Kafka)
	way := startRelay(t, w.redis.Addr)
	s := w.sceneBefore(t, w.startJudge(t, faultLatency, "-script"), 200, 6, "redis.addrs="+way.addr)
	nodes := s.start(t, 3)
	s.load(t, 1000, "plain")
	s.settled(t, time.Minute)
	p := s.startPrometheus(t)
	p.quietly(t, 20*time.Second)

	nothing := func() {}
	for _, c := range []struct {
		cause string
		begin func()
		again func() // goes on until the alerts fire
		end   func()

		alerts []string
	}{
		{"Redis is away", func() { way.cut(true) }, nothing, func() { way.cut(false) }, []string{"DispatcherRedisAway", "DispatcherNodeNotReady"}},
		{
			"the provider is down", func() { s.judge.post(t, "/down", ""); s.load(t, 200, "plain") }, nothing, func() { s.judge.post(t, "/up", "") },
			[]string{"DispatcherProviderDown"},
		},
		{"jobs are rejected", func() { s.load(t, 500, "reject") }, nothing, nothing, []string{"DispatcherDeadLetters"}},
		{
			"the provider is slow, and more jobs come than it takes", nothing, func() { s.load(t, 500, "slow"); pass(500 * time.Millisecond) },
			func() { s.judge.post(t, "/release", "") },
			[]string{"DispatcherLagGrows"},
		},
		{
			"a node is of another version", func() { s.dispatcher = otherVersion(t); p.scrapes(t, append(nodes, s.startOne(t))...) }, nothing, nothing,
			[]string{"DispatcherVersionsDiffer"},
		},
		{
			"nodes stand still for 45 ms again and again", func() { s.load(t, 30_000, "plain") }, func() { stutter(t, nodes, 45*time.Millisecond) }, nothing,
			[]string{"DispatcherGuardAtBound"},
		},
		{
			"nodes stand still for longer than a lateness may be", nothing, func() { stutter(t, nodes, 150*time.Millisecond) }, nothing,
			[]string{"DispatcherLateSlots"},
		},
		{"the broker is away", func() { s.kafka.Pause(t, true) }, nothing, func() { s.kafka.Pause(t, false) }, []string{"DispatcherKafkaAway"}},
		{
			"a node is killed", func() { nodes[2].signal(t, syscall.SIGKILL); _ = nodes[2].wait(t, 10*time.Second) }, nothing, nothing,
			[]string{"DispatcherNodeAbsent"},
		},
	} {
		begin := time.Now()
		c.begin()
		for _, alert := range c.alerts {
			eventually(t, 90*time.Second, func() bool { c.again(); return slices.Contains(p.firing(t), alert) },
				func() string { return fmt.Sprintf("%s, and %s does not fire; %v do", c.cause, alert, p.firing(t)) })
		}
		t.Logf("%s: %v fired after %v", c.cause, c.alerts, time.Since(begin).Round(time.Second))
		c.end()
	}
	for _, alert := range []string{"DispatcherRedisAway", "DispatcherProviderDown", "DispatcherKafkaAway"} {
		eventually(t, 90*time.Second, func() bool { return !slices.Contains(p.firing(t), alert) }, func() string { return alert + " fires after its cause has ended" })
	}
}

// stutter stops all nodes for a time and lets them go on for as long, five times.
func stutter(t *testing.T, nodes []*node, stop time.Duration) {
	t.Helper()
	for range 5 {
		for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
			for _, n := range nodes {
				n.signal(t, sig)
			}
			pass(stop)
		}
	}
}

// otherVersion is the path of a dispatcher that is of another release.
func otherVersion(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dispatcher")
	buildRelease(t, path, "v0.0.1", "")
	return path
}

// load writes jobs to the scene's topic, with ids that tell a scripted provider what to do.
func (s *scene) load(t *testing.T, jobs int, outcome string) {
	t.Helper()
	var records []*kgo.Record
	for range jobs {
		s.written++
		records = append(records, s.named(fmt.Sprint("k", s.written%97), fmt.Sprint(outcome, "-", s.written)))
	}
	put(t, s.producer(t), records...)
}

// needPrometheus skips the test where there is no Prometheus, or fails it where there has to be one.
func needPrometheus(t *testing.T) {
	t.Helper()
	containers.Need(t)
	if _, err := exec.LookPath("prometheus"); err != nil {
		if os.Getenv("DISPATCHER_TEST_REQUIRE_PROMETHEUS") == "1" {
			t.Fatal(err)
		}
		t.Skip("prometheus is not installed (Debian's package prometheus): nothing is scraped")
	}
}

// prometheus is a real one in a process of its own.
type prometheus struct {
	addr    string
	targets string // path of the file that names the nodes
}

// startPrometheus starts one that scrapes the nodes each two seconds, with the rules of deploy/: each looks ten seconds back where
// those look minutes back, and fires after eight.
func (s *scene) startPrometheus(t *testing.T) *prometheus {
	t.Helper()
	dir := t.TempDir()
	rules, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	config, err := yaml.Marshal(map[string]any{
		"global":         map[string]any{"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"},
		"rule_files":     []string{"alerts.yml"},
		"scrape_configs": []any{map[string]any{"job_name": "dispatcher", "file_sd_configs": []any{map[string]any{"files": []string{filepath.Join(dir, "targets.json")}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"prometheus.yml": config,
		"alerts.yml":     sooner(rules),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &prometheus{addr: freeAddr(t), targets: filepath.Join(dir, "targets.json")}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+p.addr, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("prometheus said:\n%s", tail(text, 4000))
		}
	})
	p.scrapes(t, s.nodes...)
	return p
}

// sooner has the rules look ten seconds back instead of minutes, and fire after eight.
func sooner(rules []byte) []byte {
	rules = regexp.MustCompile(`(?m)^( +for:).*$`).ReplaceAll(rules, []byte("$1 8s"))
	return regexp.MustCompile(`(\[|offset )\d+m`).ReplaceAll(rules, []byte("${1}10s"))
}

// scrapes tells it which nodes there are, and waits until it has read all of them.
func (p *prometheus) scrapes(t *testing.T, nodes ...*node) {
	t.Helper()
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.admin)
	}
	text, err := json.Marshal([]any{map[string]any{"targets": addrs}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.targets, text, 0o600); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprint(len(nodes))
	eventually(t, time.Minute, func() bool {
		values := p.query(t, `sum(up{job="dispatcher"})`)
		return len(values) == 1 && values[0] == want
	},
		func() string { return "prometheus does not scrape all nodes" })
}

// get asks the API, and returns false while it does not answer.
func (p *prometheus) get(t *testing.T, path string, into any) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.addr+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false // it is starting
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusServiceUnavailable {
		return false // likewise
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %d %v: %+v", path, resp.StatusCode, err, into)
	}
	return true
}

// query returns the values of an expression now.
func (p *prometheus) query(t *testing.T, expr string) (values []string) {
	t.Helper()
	var answer struct {
		Error string
		Data  struct{ Result []struct{ Value [2]any } }
	}
	p.get(t, "/api/v1/query?"+url.Values{"query": {expr}}.Encode(), &answer)
	for _, r := range answer.Data.Result {
		values = append(values, fmt.Sprint(r.Value[1]))
	}
	return values
}

// firing are the names of the alerts that fire.
func (p *prometheus) firing(t *testing.T) (names []string) {
	t.Helper()
	var answer struct {
		Error string
		Data  struct {
			Alerts []struct {
				State  string
				Labels map[string]string
			}
		}
	}
	if !p.get(t, "/api/v1/alerts", &answer) {
		t.Fatal("prometheus does not answer")
	}
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			names = append(names, a.Labels["alertname"])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// quietly expects for a time that no alert fires, but those that a busy machine can bring about.
func (p *prometheus) quietly(t *testing.T, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); pass(500 * time.Millisecond) {
		names := slices.DeleteFunc(p.firing(t), func(name string) bool { return name == "DispatcherLateSlots" || name == "DispatcherGuardAtBound" })
		if len(names) > 0 {
			t.Fatalf("%v fire, and nothing is wrong", names)
		}
	}
}
