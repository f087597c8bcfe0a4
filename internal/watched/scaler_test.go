package watched_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"
)

// scalerQuery is the query that asks Prometheus for the number of nodes.
func scalerQuery(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(scaler)
	if err != nil {
		t.Fatal(err)
	}
	var object struct {
		Spec struct {
			Triggers []struct {
				Metadata struct {
					Query string `yaml:"query"`
				} `yaml:"metadata"`
			} `yaml:"triggers"`
		} `yaml:"spec"`
	}
	if err := yaml.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	if n := len(object.Spec.Triggers); n != 1 {
		t.Fatalf("%s: got %d triggers, want 1", scaler, n)
	}
	return object.Spec.Triggers[0].Metadata.Query
}

// promtoolTest is a test file of promtool: these series have these values for five minutes, the late ones for the last two of
// them. Then the query has this value.
func promtoolTest(query string, series, late map[string]int, want int) ([]byte, error) {
	var input []any
	for name, value := range series {
		input = append(input, map[string]any{"series": name, "values": fmt.Sprintf("%d+0x5", value)})
	}
	for name, value := range late {
		input = append(input, map[string]any{"series": name, "values": fmt.Sprintf("_x3 %d+0x2", value)})
	}
	expected := map[string]any{"expr": query, "eval_time": "5m", "exp_samples": []any{map[string]any{"labels": "{}", "value": want}}}
	return yaml.Marshal(map[string]any{"tests": []any{map[string]any{"interval": "1m", "input_series": input, "promql_expr_test": []any{expected}}}})
}

// The scaler adds nodes for lag while no limit binds, and keeps their number while one does. Each case has three nodes and a lag of
// 30,000 jobs, which asks for six.
func TestTheScalerKeepsTheNodesWhileALimitBinds(t *testing.T) {
	t.Parallel()
	path, query := promtool(t), scalerQuery(t)
	for name, c := range map[string]struct {
		first, later, waiting int // the ratio of the first limit and of the one after it, and the jobs that wait for that
		want                  int
	}{
		"no limit binds":                              {want: 6},
		"the first limit binds":                       {first: 1, want: 3},
		"one job waits for a later limit":             {later: 1, waiting: 1, want: 6},
		"more jobs wait for it than are in flight":    {later: 1, waiting: 61, want: 3},
		"as many jobs wait for it as are in flight":   {later: 1, waiting: 60, want: 6},
		"both limits bind":                            {first: 1, later: 1, waiting: 61, want: 3},
		"the first binds, one job waits for the last": {first: 1, later: 1, waiting: 1, want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			series := map[string]int{
				`dispatcher_consumer_lag_records{job="dispatcher", instance="n1", topic="jobs", partition="0"}`:          30_000,
				`dispatcher_consumer_lag_records{job="dispatcher", instance="n2", topic="jobs.retry.1h", partition="0"}`: 90_000,
				`dispatcher_limit_waiting_jobs{job="dispatcher", instance="n3", limit="recipient"}`:                      c.waiting,
			}
			for _, node := range []string{"n1", "n2", "n3"} {
				series[`dispatcher_consumer_in_flight_jobs{job="dispatcher", instance="`+node+`", lane="default"}`] = 20
				series[`dispatcher_limit_binds_ratio{job="dispatcher", instance="`+node+`", limit="provider"}`] = c.first
				series[`dispatcher_limit_binds_ratio{job="dispatcher", instance="`+node+`", limit="recipient"}`] = c.later
			}
			tryQuery(t, path, query, series, nil, c.want)
		})
	}
}

// oneNode is a fleet of one node and one limit, which does not bind.
func oneNode() map[string]int {
	return map[string]int{
		`dispatcher_consumer_lag_records{job="dispatcher", instance="n1", topic="jobs", partition="0"}`: 30_000,
		`dispatcher_consumer_in_flight_jobs{job="dispatcher", instance="n1", lane="default"}`:           20,
		`dispatcher_limit_binds_ratio{job="dispatcher", instance="n1", limit="provider"}`:               0,
	}
}

// A fleet with one limit has no series of limits after the first.
func TestTheScalerNeedsNoLaterLimit(t *testing.T) {
	t.Parallel()
	path, query := promtool(t), scalerQuery(t)
	series := oneNode()
	tryQuery(t, path, query, series, nil, 6)
	series[`dispatcher_limit_binds_ratio{job="dispatcher", instance="n1", limit="provider"}`] = 1
	tryQuery(t, path, query, series, nil, 1)
}

// Two fleets have one Prometheus. The other one has four nodes, a limit that binds, and a lag of its own.
func TestTheScalerLooksAtItsOwnFleetAlone(t *testing.T) {
	t.Parallel()
	path, query := promtool(t), scalerQuery(t)
	series := oneNode()
	series[`dispatcher_consumer_lag_records{job="other", instance="o1", topic="jobs", partition="0"}`] = 90_000
	series[`dispatcher_limit_waiting_jobs{job="other", instance="o1", limit="recipient"}`] = 500
	for _, node := range []string{"o1", "o2", "o3", "o4"} {
		series[`dispatcher_limit_binds_ratio{job="other", instance="`+node+`", limit="provider"}`] = 1
	}
	tryQuery(t, path, query, series, nil, 6)
	series[`dispatcher_limit_binds_ratio{job="dispatcher", instance="n1", limit="provider"}`] = 1
	tryQuery(t, path, query, series, nil, 1)
}

// A rollout starts a new node before an old one leaves.
func TestTheScalerCountsNoNodeOfARollout(t *testing.T) {
	t.Parallel()
	series := map[string]int{`dispatcher_limit_binds_ratio{job="dispatcher", instance="n1", limit="provider"}`: 1}
	late := map[string]int{`dispatcher_limit_binds_ratio{job="dispatcher", instance="n2", limit="provider"}`: 1}
	tryQuery(t, promtool(t), scalerQuery(t), series, late, 1)
}

// tryQuery has promtool evaluate a query over series.
func tryQuery(t *testing.T, promtool, query string, series, late map[string]int, want int) {
	t.Helper()
	text, err := promtoolTest(query, series, late, want)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "query_test.yml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput()
	if err != nil { // its output states what was got and what was expected
		t.Errorf("want %d nodes: promtool: %v\n%s", want, err, out)
	}
}
