// Package watched reads the dashboard and the alerts in deploy/, so that tests can compare them with what a node exports.
//
// It finds the metrics of an expression by their names, and does not parse it: promtool and a real Prometheus do. It starts no
// goroutine.
package watched

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Expression is a query of the dashboard or of an alert.
type Expression struct {
	Where string   // the panel's title, or the alert's name
	Text  string   // PromQL; Grafana's variables are in it
	Shown []string // labels that its legend or its summary shows
}

// Metric is a metric of dispatcher as an expression selects it.
type Metric struct {
	Name     string
	Matchers []Matcher
}

// Matcher is a condition on a label.
type Matcher struct {
	Label  string
	Values []string // alternatives that the label is to have, or is not to have; none where a variable or another pattern says it
}

var (
	metrics  = regexp.MustCompile(`\b(dispatcher_[a-z_]+)(?:\{([^}]*)\})?`)
	matchers = regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)"([^"]*)"`)
	groups   = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
	shown    = regexp.MustCompile(`\{\{ *(?:if )?(?:\$labels\.)?([a-z_]+)`)
	word     = regexp.MustCompile(`^[a-z_]+$`)
)

// Metrics are those that the expression names.
func (e Expression) Metrics() (all []Metric) {
	for _, found := range metrics.FindAllStringSubmatch(e.Text, -1) {
		m := Metric{Name: found[1]}
		for _, one := range matchers.FindAllStringSubmatch(found[2], -1) {
			condition := Matcher{Label: one[1]}
			if values := strings.Split(one[3], "|"); !slices.ContainsFunc(values, func(v string) bool { return !word.MatchString(v) }) {
				condition.Values = values
			}
			m.Matchers = append(m.Matchers, condition)
		}
		all = append(all, m)
	}
	return all
}

// Labels are those that the expression groups by, and those that a text beside it shows.
func (e Expression) Labels() []string {
	labels := slices.Clone(e.Shown)
	for _, found := range groups.FindAllStringSubmatch(e.Text, -1) {
		for name := range strings.SplitSeq(found[1], ",") {
			labels = append(labels, strings.TrimSpace(name))
		}
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

func labelsShown(text string) (labels []string) {
	for _, found := range shown.FindAllStringSubmatch(text, -1) {
		if found[1] != "else" && found[1] != "end" {
			labels = append(labels, found[1])
		}
	}
	return labels
}

// Dashboard is what is checked of Grafana's.
type Dashboard struct {
	UID        string  `json:"uid"`
	Title      string  `json:"title"`
	Panels     []Panel `json:"panels"`
	Templating struct {
		List []Variable `json:"list"`
	} `json:"templating"`
}

// Variable is one that the reader of a dashboard chooses.
type Variable struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	Definition string `json:"definition"`
}

// Panel is a panel, or a row, which has no queries.
type Panel struct {
	ID          int        `json:"id"`
	Type        string     `json:"type"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	Datasource  Datasource `json:"datasource"`
	GridPos     Place      `json:"gridPos"`
	Targets     []Target   `json:"targets"`
}

// Datasource is where a panel's data is from.
type Datasource struct {
	UID string `json:"uid"`
}

// Place is a rectangle on the grid, which is 24 wide.
type Place struct{ X, Y, W, H int }

// Target is a query of a panel.
type Target struct {
	RefID      string     `json:"refId"`
	Expr       string     `json:"expr"`
	Legend     string     `json:"legendFormat"`
	Datasource Datasource `json:"datasource"`
}

// ReadDashboard reads a file of Grafana's.
func ReadDashboard(path string) (*Dashboard, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := new(Dashboard)
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// Expressions are the queries of all panels.
func (d *Dashboard) Expressions() (all []Expression) {
	for _, p := range d.Panels {
		for _, t := range p.Targets {
			all = append(all, Expression{Where: p.Title, Text: t.Expr, Shown: labelsShown(t.Legend)})
		}
	}
	return all
}

// Alert is a rule that fires.
type Alert struct {
	Name        string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// ReadAlerts reads a file of rules.
func ReadAlerts(path string) ([]Alert, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Groups []struct {
			Rules []Alert `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var all []Alert
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all, nil
}

// Expression is the alert's.
func (a Alert) Expression() Expression {
	return Expression{Where: a.Name, Text: a.Expr, Shown: labelsShown(a.Annotations["summary"])}
}
