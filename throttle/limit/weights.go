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
		case name == "" || len(name) > maxTenantBytes || err != nil || !(weight >= leastWeight && weight <= mostWeight):
			faults.Refuse(true, "weights", word, "must be tenant=weight, such as acme=5: a name of up to %d bytes without space, comma and =, and a weight from %v to %v", maxTenantBytes, leastWeight, mostWeight)
		case twice:
			faults.Refuse(true, "weights", word, "is the second weight of that tenant")
		default:
			weights[name] = weight
		}
	}
	faults.Refuse(len(weights) > MaxWeights, "weights", len(weights), "must be at most %d; all other tenants have the weight 1", MaxWeights)
	return weights, faults.Err()
}
