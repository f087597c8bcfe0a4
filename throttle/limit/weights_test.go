package limit

import (
	"maps"
	"strings"
	"testing"
)

func TestWeightsAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]map[string]float64{
		"":                  {},
		"acme=5":            {"acme": 5},
		"acme=5 beta=0.5":   {"acme": 5, "beta": 0.5},
		"acme=100,beta=.01": {"acme": 100, "beta": 0.01},
		" a.b-c_d=2, ":      {"a.b-c_d": 2},
	} {
		if got, err := (Terms{Weights: text}).TenantWeights(); err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: got %v and %v, want %v", text, got, err, want)
		}
	}
}

func TestWeightsThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	many := strings.Builder{}
	for i := range MaxWeights + 1 {
		many.WriteString(strings.Repeat("a", i%20+1) + strings.Repeat("b", i/20) + "=1 ")
	}
	for text, want := range map[string]string{
		"acme":                         `weights: "acme": must be tenant=weight`,
		"=5":                           `weights: "=5": must be tenant=weight`,
		"acme=0":                       "a weight from 0.01 to 100",
		"acme=101":                     "a weight from 0.01 to 100",
		"acme=-1":                      "a weight from 0.01 to 100",
		"acme=NaN":                     "a weight from 0.01 to 100",
		"acme=5x":                      "a weight from 0.01 to 100",
		"acme=5 acme=6":                "is the second weight of that tenant",
		strings.Repeat("a", 65) + "=1": "a name of up to 64 letters",
		many.String():                  "weights: 101: must be at most 100",
		"a<b=1":                        "a name of up to 64 letters",
		"\xff=1":                       "a name of up to 64 letters",
		strings.Repeat(" ", 4097):      "weights: 4097: must have at most 4096 bytes",
	} {
		if _, err := (Terms{Weights: text}).TenantWeights(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want an error with %q", text, err, want)
		}
	}
}
