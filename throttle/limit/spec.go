package limit

import (
	"cmp"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"dispatcher/internal/fault"
)

// Spec is a limit as a file states it. It seeds Redis with the terms and the
// guardrails; the other settings are each node's own.
type Spec struct {
	Terms      `yaml:",inline"`
	Guardrails `yaml:",inline"`
	Bucket     `yaml:",inline"`
	Degraded   Degraded      `yaml:"degraded"` // default DegradedWait
	Scope      Scope         `yaml:"scope"`    // default ScopeCluster
	WarmUp     time.Duration `yaml:"warm_up"`  // with ScopeNode: in which the rate rises from a third to all of it; 0: none
}

// Scope says who keeps a limit together.
type Scope string

// The scopes.
const (
	ScopeCluster Scope = "cluster" // the whole fleet, in Redis
	ScopeNode    Scope = "node"    // each node for itself; Redis is not asked
)

// Degraded is a node's behaviour while Redis is away.
type Degraded string

// The choices.
const (
	DegradedWait    Degraded = "wait"
	DegradedReserve Degraded = "reserve" // it uses its lease of the reserve
)

const maxWarmUp = time.Hour

// Validate refuses a limit that can't be kept, with a [fault.Error] for each setting
// that stands in the way.
func (s Spec) Validate() error {
	err := errors.Join(s.Terms.Validate(), s.Guardrails.Validate(s.Contract))
	if err == nil && !s.Gate { // no other algorithm could leave more of a gate's cap
		err = s.Waste()
	}
	return errors.Join(err, s.checkScope(), s.Bucket.Validate(s.Algorithm, s.Contract), s.checkDegraded())
}

func (s Spec) checkScope() error {
	var faults fault.List
	switch s.Scope {
	case "", ScopeCluster:
		faults.Refuse(s.WarmUp != 0, "warm_up", s.WarmUp, "is for scope node only")
	case ScopeNode:
		faults.Refuse(s.Gate, "scope", string(s.Scope), "must be cluster beside the first limit")
		faults.Refuse(cmp.Or(s.Algorithm, DefaultAlgorithm) != DefaultAlgorithm, "algorithm", s.Algorithm, "must be %s with scope node", DefaultAlgorithm)
		faults.Refuse(s.Reserve != 0, "reserve", s.Reserve, "is for scope cluster: a node that asks nobody needs none")
		faults.Between("warm_up", s.WarmUp, 0, maxWarmUp)
		faults.Refuse(s.WarmUp != 0 && s.Burst > 1, "burst", s.Burst, "must be 1 with warm_up, for a burst is no slow start")
	default:
		faults.Refuse(true, "scope", string(s.Scope), "must be cluster or node")
	}
	return faults.Err()
}

// checkDegraded: a reserve that nobody uses would only make the limit smaller.
func (s Spec) checkDegraded() error {
	var faults fault.List
	reserve := s.Degraded == DegradedReserve
	faults.OneOf("degraded", string(cmp.Or(s.Degraded, DegradedWait)), string(DegradedWait), string(DegradedReserve))
	faults.Refuse(reserve && s.Reserve == 0 && s.MaxNodes == 0, "reserve", s.Reserve, "is required with degraded: reserve, and max_nodes as well")
	faults.Refuse(!reserve && s.Reserve != 0, "reserve", s.Reserve, "must be 0 without degraded: reserve")
	faults.Refuse(!reserve && s.MaxNodes != 0, "max_nodes", s.MaxNodes, "must be 0 without degraded: reserve")
	return faults.Err()
}

// Settings are the ones that the file seeds.
func (s Spec) Settings() Settings {
	s.Algorithm = cmp.Or(s.Algorithm, DefaultAlgorithm)
	s.MaxCost = s.LargestCost()
	return Settings{Terms: s.Terms, Guardrails: s.Guardrails, Revision: 1, By: "file"}
}

var nameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// CheckNode refuses a node's name that the scripts could not read back from their records, where white space ends it. An
// empty name is none.
func CheckNode(field, name string) error {
	var faults fault.List
	odd := strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) })
	faults.Refuse(odd || len(name) > maxNode || !utf8.ValidString(name), field, fault.Phrase(strconv.Quote(name)), "must have %d bytes at most, all of them visible characters, without white space; where it is not stated, it is the name of the host", maxNode)
	return faults.Err()
}

const maxNode = 255

// CheckName refuses a name of a limit or namespace that has no place in a key.
func CheckName(field, name string) error {
	var faults fault.List
	faults.Refuse(!nameRE.MatchString(name), field, name, "must be 1 to 63 of a-z, 0-9, - and _, and begin with a letter or digit")
	return faults.Err()
}
