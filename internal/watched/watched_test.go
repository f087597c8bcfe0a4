package watched_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"go.yaml.in/yaml/v3"

	"dispatcher/internal/background"
	"dispatcher/internal/embedded"
	"dispatcher/internal/watched"
)

const (
	dashboard = "../../deploy/grafana/dashboard.json"
	alerts    = "../../deploy/prometheus/alerts.yml"
	scaler    = "../../deploy/kubernetes/autoscaled/scaledobject.yaml"
)

// everything is a configuration with which a node has all its metrics.
const everything = `
dedup: {enabled: true}
kafka: {results: true}
tracing: {endpoint: "http://127.0.0.1:1", insecure: true} # nothing listens there
limits:
  - {name: provider, cap: 1000, window: 1s, guard: auto}
  - {name: recipient, key: job.json.to, cap: 10, window: 1s}
  - {name: daily, cap: 100000, calendar: day}
`

// exported are the metrics of a node that works with this configuration file; empty: with the defaults.
func exported(t *testing.T, configuration string) map[string]*dto.MetricFamily {
	t.Helper()
	o := embedded.Options{Partitions: 2}
	if configuration != "" {
		o.File = filepath.Join(t.TempDir(), "dispatcher.yaml")
		if err := os.WriteFile(o.File, []byte(configuration), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parts, err := embedded.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := parts.Provider.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	background.Run(t, parts.Run)
	fleet, err := embedded.NewFleet(parts, 1, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, fleet.Run)
	for fleet.Working() == 0 {
		select {
		case <-t.Context().Done():
			t.Fatal("the node got no partition")
		case <-time.After(20 * time.Millisecond):
		}
	}
	all := make(map[string]*dto.MetricFamily)
	for _, family := range fleet.Gather() {
		all[family.GetName()] = family
	}
	return all
}

func readDashboard(t *testing.T) *watched.Dashboard {
	t.Helper()
	d, err := watched.ReadDashboard(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func readAlerts(t *testing.T) []watched.Alert {
	t.Helper()
	all, err := watched.ReadAlerts(alerts)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// labels are the labels of a metric with their values.
func labels(family *dto.MetricFamily) map[string][]string {
	all := make(map[string][]string)
	for _, m := range family.GetMetric() {
		for _, l := range m.GetLabel() {
			all[l.GetName()] = append(all[l.GetName()], l.GetValue())
		}
	}
	return all
}

// ofLaterLimits are metrics of limits after the first, of which a node with the defaults has none.
func ofLaterLimits() []string {
	return []string{"dispatcher_limit_blocks_total", "dispatcher_limit_waiting_jobs"}
}

// A metric or a label that no node exports would leave a panel empty, and an alert silent for ever.
func TestTheDashboardAndTheAlertsNameWhatANodeExports(t *testing.T) {
	t.Parallel()
	node := exported(t, "")
	all := readDashboard(t).Expressions()
	for _, a := range readAlerts(t) {
		all = append(all, a.Expression())
	}
	scale, err := os.ReadFile(scaler)
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, watched.Expression{Where: scaler, Text: string(scale)})
	named := 0
	for _, e := range all {
		known := map[string][]string{"job": nil, "instance": nil, "le": nil, "value": nil} // those of Prometheus itself
		for _, m := range e.Metrics() {
			named++
			family := node[m.Name]
			if family == nil { // a histogram has three names
				family = node[strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(m.Name, "_bucket"), "_count"), "_sum")]
			}
			if slices.Contains(ofLaterLimits(), m.Name) {
				family = &dto.MetricFamily{Metric: []*dto.Metric{{Label: []*dto.LabelPair{{Name: new("limit"), Value: new("recipient")}}}}}
			}
			if family == nil {
				t.Errorf("%s: no node exports %s", e.Where, m.Name)
				continue
			}
			has := labels(family)
			maps.Copy(known, has)
			for _, condition := range m.Matchers {
				values, ok := has[condition.Label]
				if _, own := known[condition.Label]; !ok && !own {
					t.Errorf("%s: %s has no label %s", e.Where, m.Name, condition.Label)
				}
				for _, v := range condition.Values {
					if ok && !slices.Contains(values, v) {
						t.Errorf("%s: no series of %s has %s=%q", e.Where, m.Name, condition.Label, v)
					}
				}
			}
		}
		for _, name := range e.Labels() {
			if _, ok := known[name]; !ok {
				t.Errorf("%s: no metric of it has the label %s: %s", e.Where, name, e.Text)
			}
		}
	}
	if named < len(all) {
		t.Errorf("got %d metrics in %d expressions, want one in each at least", named, len(all))
	}
}

func TestTheDashboardHasNoEmptyPanelAndFitsTheGrid(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	if len(d.Panels) == 0 || d.UID == "" || d.Title == "" {
		t.Fatalf("got %d panels, uid %q and title %q", len(d.Panels), d.UID, d.Title)
	}
	if !slices.ContainsFunc(d.Templating.List, func(v watched.Variable) bool { return v.Name == "datasource" && v.Type == "datasource" }) {
		t.Error("the dashboard has no variable for its data source")
	}
	ids := make(map[int]string)
	for i, p := range d.Panels {
		if other, used := ids[p.ID]; used || p.ID <= 0 || p.Title == "" {
			t.Errorf("panel %q has the id %d, as %q has", p.Title, p.ID, other)
		}
		ids[p.ID] = p.Title
		if g := p.GridPos; g.X < 0 || g.Y < 0 || g.W < 1 || g.H < 1 || g.X+g.W > 24 {
			t.Errorf("panel %q lies outside the grid: %+v", p.Title, g)
		}
		for _, o := range d.Panels[:i] {
			a, b := p.GridPos, o.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("panels %q and %q overlap", p.Title, o.Title)
			}
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.Description == "" || p.Datasource.UID != "${datasource}" {
			t.Errorf("panel %q has %d queries, the description %q and the data source %q", p.Title, len(p.Targets), p.Description, p.Datasource.UID)
		}
		refs := make(map[string]bool)
		for _, target := range p.Targets {
			if target.Expr == "" || refs[target.RefID] || target.Datasource.UID != "${datasource}" {
				t.Errorf("panel %q has the query %+v", p.Title, target)
			}
			refs[target.RefID] = true
		}
	}
}

// The document says of each alert what to do, and of no alert that there isn't.
func TestEachAlertHasItsSection(t *testing.T) {
	t.Parallel()
	const path = "docs/operations.md"
	text, err := os.ReadFile("../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Dashboard and alerts\n")
	if !found {
		t.Fatalf("%s has no section for dashboard and alerts", path)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var documented, runbooks []string
	for _, h := range regexp.MustCompile(`(?m)^### (.*)$`).FindAllStringSubmatch(section, -1) {
		documented = append(documented, path+"#"+anchor(h[1]))
	}
	for _, a := range readAlerts(t) {
		runbooks = append(runbooks, a.Annotations["runbook"])
		if !strings.Contains(section, "`"+a.Name+"`") {
			t.Errorf("%s does not name the alert %s", path, a.Name)
		}
		if a.Expr == "" || a.For == "" || a.Annotations["summary"] == "" || !slices.Contains([]string{"warning", "critical"}, a.Labels["severity"]) {
			t.Errorf("got the alert %+v, want an expression, a time, a summary and a severity", a)
		}
	}
	slices.Sort(documented)
	slices.Sort(runbooks)
	if len(runbooks) == 0 || !slices.Equal(documented, runbooks) {
		t.Errorf("got the sections\n%s\nwant those that the alerts name\n%s", strings.Join(documented, "\n"), strings.Join(runbooks, "\n"))
	}
}

// promtool's tests show of each alert when it fires, and that none fires in a quiet hour.
func TestEachAlertIsSeenFiring(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/prometheus/alerts_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tests []struct {
			Name  string `yaml:"name"`
			Rules []struct {
				Alert  string `yaml:"alertname"`
				Expect []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		} `yaml:"tests"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	fires := make(map[string]bool)
	for _, test := range file.Tests {
		for _, r := range test.Rules {
			fires[r.Alert] = fires[r.Alert] || len(r.Expect) > 0
		}
	}
	for _, a := range readAlerts(t) {
		if !fires[a.Name] {
			t.Errorf("no test of alerts_test.yml has %s fire", a.Name)
		}
	}
	if len(file.Tests) == 0 || file.Tests[0].Name != "a quiet hour" {
		t.Error("the first test of alerts_test.yml is not the quiet hour")
	}
}

func TestPromtoolAcceptsTheAlerts(t *testing.T) {
	t.Parallel()
	path := promtool(t)
	for _, args := range []string{"check config prometheus.yml", "check rules alerts.yml", "test rules alerts_test.yml"} {
		cmd := exec.CommandContext(t.Context(), path, strings.Fields(args)...)
		cmd.Dir = "../../deploy/prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", args, err, out)
		}
	}
}

// promtool is the path of the program. Without it the test is skipped, or fails where the program has to be there.
func promtool(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil && os.Getenv("DISPATCHER_TEST_REQUIRE_PROMETHEUS") == "1" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip("promtool is not installed (Debian's package prometheus): no rule and no query is tried")
	}
	return path
}

// anchor is how a heading is linked.
func anchor(heading string) string {
	kept := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(kept, " ", "-")
}

func TestMetricsFollowTheConventions(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	for name, family := range exported(t, everything) {
		if !strings.HasPrefix(name, "dispatcher_") {
			continue // the Go runtime's
		}
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
		if family.GetType() == dto.MetricType_HISTOGRAM && family.GetMetric()[0].GetHistogram().GetSchema() == 0 {
			t.Errorf("%s has no native buckets; make it by package histogram", name)
		}
	}
	problems, err := promlint.New(&text).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// rare are documented metrics that have no series before something happened.
func rare() []string {
	return []string{"rule_errors_total", "provider_last_result", "limit_quota_used_units", "limit_quota_cap_units"}
}

func TestTheReferenceListsAllMetrics(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := make(map[string]string) // the labels, by the name
	for _, line := range regexp.MustCompile("(?m)^\\| (`.*) \\| (?:counter|gauge|histogram) \\|").FindAllStringSubmatch(section, -1) {
		for _, one := range regexp.MustCompile("`([a-z_]+)(?:\\{([a-z_,]+)\\})?`").FindAllStringSubmatch(line[1], -1) {
			documented[one[1]] = one[2]
		}
	}
	node := exported(t, everything)
	for name, family := range node {
		name, ours := strings.CutPrefix(name, "dispatcher_")
		if !ours {
			continue
		}
		stated, ok := documented[name]
		if !ok {
			t.Errorf("docs/reference.md does not list %s", name)
		}
		for label := range labels(family) {
			if label != "limit" && !slices.Contains(strings.Split(stated, ","), label) {
				t.Errorf("docs/reference.md does not name the label %s of %s", label, name)
			}
		}
	}
	for name := range documented {
		if node["dispatcher_"+name] == nil && !slices.Contains(rare(), name) {
			t.Errorf("docs/reference.md lists %s, which a node does not export", name)
		}
	}
}

func TestAnExpressionIsTakenApart(t *testing.T) {
	t.Parallel()
	e := watched.Expression{Text: `sum by (job, limit) (rate(dispatcher_a_total{job=~"$job",result=~"x|y"}[5m])) > on (job) dispatcher_b`, Shown: []string{"limit", "zone"}}
	want := `[{dispatcher_a_total [{job []} {result [x y]}]} {dispatcher_b []}] [job limit zone]`
	if got := fmt.Sprint(e.Metrics(), " ", e.Labels()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
