package throttle

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dispatcher/throttle/limit"
)

// An algorithm is written twice: as a row in Go and as a script. Here the two agree.

var (
	declaredFields = regexp.MustCompile(`algorithm = \{fields = \{([^}]*)\}`)
	notedField     = regexp.MustCompile(`note\('(\w+)'`)
	quoted         = regexp.MustCompile(`'(\w+)'`)
)

// A field that an algorithm notes is one that it declares: the frame reads no other.
// It is none of the frame's, and none of the settings, which lie in the same table.
func TestAnAlgorithmDeclaresItsFields(t *testing.T) {
	t.Parallel()
	frame := regexp.MustCompile(`(?s)HMGET', limit, ('settings'.*?), unpack`).FindStringSubmatch(scriptOf(limit.DefaultAlgorithm))
	if frame == nil {
		t.Fatal("the frame reads no fields of its own; name them again")
	}
	packed := seeded(contract(300)).Pack()
	for _, a := range limit.Algorithms() {
		declared := declaredFields.FindStringSubmatch(scriptOf(a.Name))
		if declared == nil {
			t.Errorf("%s: the script declares no fields: local algorithm = {fields = {…}}", a.Name)
			continue
		}
		var fields []string
		for _, f := range quoted.FindAllStringSubmatch(declared[1], -1) {
			fields = append(fields, f[1])
			if strings.Contains(frame[1], f[0]) || strings.Contains(packed, `"`+f[1]+`":`) {
				t.Errorf("%s: the field %s is the frame's, or a setting: take another name", a.Name, f[1])
			}
		}
		text, err := os.ReadFile("../lua/algorithms/" + a.Script + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range notedField.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(fields, f[1]) {
				t.Errorf("%s: notes the field %s and does not declare it: it would never be read", a.Name, f[1])
			}
		}
	}
}
