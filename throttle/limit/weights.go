package limit

import (
	"strconv"
	"strings"

	"dispatcher/internal/fault"
)

// Bounds of the weights of tenants.
const (
	MaxWeights     = 100 // tenants that have a weight of their own
	maxTenantBytes = 64
	maxWeightBytes = 4096 // of all: they are part of the settings, which each call carries
	leastWeight    = 0.01
	mostWeight     = 100
)

// TenantWeights are the weights of tenants that have one of their own: "acme=5 beta=0.5" gives acme ten
// times the turns of beta. Tenants that take turns are the consumer's; only the weights are part of the settings, so that
// a change is in force on all nodes, and in the history. Its error is a [fault.Error].
func (t Terms) TenantWeights() (map[string]float64, error) {
	var faults fault.List
	weights := map[string]float64{}
	for _, word := range strings.FieldsFunc(t.Weights, func(r rune) bool { return r == ',' || r == ' ' }) {
		name, text, _ := strings.Cut(word, "=")
		weight, err := strconv.ParseFloat(text, 64)
		_, twice := weights[name]
		switch {
		case !isTenant(name) || err != nil || !(weight >= leastWeight && weight <= mostWeight):
			faults.Refuse(true, "weights", word, "must be tenant=weight, such as acme=5: a name of up to %d letters, digits and . _ - @ + : /, and a weight from %v to %v", maxTenantBytes, leastWeight, mostWeight)
		case twice:
			faults.Refuse(true, "weights", word, "is the second weight of that tenant")
		default:
			weights[name] = weight
		}
	}
	faults.Refuse(len(t.Weights) > maxWeightBytes, "weights", len(t.Weights), "must have at most %d bytes", maxWeightBytes)
	faults.Refuse(len(weights) > MaxWeights, "weights", len(weights), "must be at most %d; all other tenants have the weight 1", MaxWeights)
	return weights, faults.Err()
}

// isTenant tells whether a name may have a weight. Such names are as long in JSON as they are here.
func isTenant(name string) bool {
	return name != "" && len(name) <= maxTenantBytes && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-@+:/", r)
	})
}
