package configs

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// default.yaml is documentation as well as defaults, so it must say everything
// there is, and explain it.
func TestEveryKeyIsInDefaultYAMLWithAComment(t *testing.T) {
	t.Parallel()
	var doc yaml.Node
	if err := yaml.Unmarshal(defaults, &doc); err != nil {
		t.Fatal(err)
	}
	var got []string
	walk(t, doc.Content[0], "", &got)
	var want []string
	for _, path := range paths() {
		path = strings.TrimSuffix(path, ".NAME")
		for _, list := range []string{lanesKey, tokensKey} {
			if strings.HasPrefix(path, list+".") {
				path = list // empty by default: the comment on it is for all its keys
			}
		}
		want = append(want, path)
	}
	slices.Sort(got)
	slices.Sort(want)
	want = slices.Compact(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want a key in default.yaml for each field of Config, and no other: - lacks in default.yaml, + lacks in Config\n%s", diff)
	}
}

func walk(t *testing.T, node *yaml.Node, prefix string, leaves *[]string) {
	t.Helper()
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		path := prefix + key.Value
		// The first key of a list's entry has its comment on the entry.
		commented := key.HeadComment != "" || (i == 0 && node.HeadComment != "")
		if !commented {
			t.Errorf("default.yaml:%d: %s has no comment", key.Line, path)
		}
		switch {
		case value.Kind == yaml.MappingNode && len(value.Content) > 0:
			walk(t, value, path+".", leaves)
		case value.Kind == yaml.SequenceNode && len(value.Content) > 0 && value.Content[0].Kind == yaml.MappingNode:
			walk(t, value.Content[0], path+".0.", leaves)
		default:
			*leaves = append(*leaves, path)
		}
	}
}

// Two keys that share a variable could not both be set.
func TestEveryKeyHasAVariableOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, path := range paths() {
		name := envName(path)
		if other, taken := seen[name]; taken {
			t.Errorf("%s and %s are both %s", path, other, name)
		}
		if foreign(name) || serviceLink(name, "tcp://10.0.0.1:80") {
			t.Errorf("%s: %s is not read", path, name)
		}
		seen[name] = path
		steps := strings.Split(path, ".")
		if _, err := lookup(steps); err != nil {
			t.Errorf("--set %s: %v", path, err)
		}
	}
}

func TestEveryKeyCanBeSetFromTheEnvironment(t *testing.T) {
	t.Parallel()
	for _, path := range paths() {
		f, err := lookup(strings.Split(path, "."))
		if err != nil {
			t.Fatal(err)
		}
		text := map[string]string{"int": "17", "int64": "17", "float64": "17.5", "bool": "true", "string": "seventeen", "slice": "seventeen"}[f.typ.Kind().String()]
		if f.typ.String() == "time.Duration" {
			text = "17s"
		}
		if f.typ.String() == "[]time.Duration" {
			text = "17s"
		}
		c, err := Load(Source{Environ: func() []string { return []string{envName(path) + "=" + text} }})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		out, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		last := path[strings.LastIndex(path, ".")+1:]
		if last == "NAME" {
			last = "name"
		}
		shown := text
		if f.secret {
			shown = redacted
		}
		if !strings.Contains(string(out), shown) || !strings.Contains(string(out), last+":") {
			t.Errorf("%s: set to %s and not found in\n%s", path, shown, out)
		}
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"broker", "brokers", 1}, {"brust", "burst", 1}, {"ab", "ba", 1}, {"kitten", "sitting", 3}} {
		if got := distance(row.a, row.b); got != row.want {
			t.Errorf("distance(%q, %q): got %d, want %d", row.a, row.b, got, row.want)
		}
	}
}
