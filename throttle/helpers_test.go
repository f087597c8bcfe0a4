package throttle

import (
	"time"

	"dispatcher/lua"
)

// seeded are the settings that a file seeds.
func seeded(c Contract, g ...Guardrails) Settings {
	s := specOf(c)
	if len(g) > 0 {
		s.Guardrails = g[0]
	}
	return s.Settings()
}

func seededBy(algorithm string, c Contract) Settings {
	s := specOf(c)
	s.Algorithm = algorithm
	return s.Settings()
}

// specOf is a limit with a contract, as a file states it.
func specOf(c Contract) Spec {
	s := Spec{Terms: Terms{Contract: c}}
	if c.Reserve > 0 {
		s.Degraded = DegradedReserve
	}
	return s
}

// algorithm is the one of a name that exists.
func algorithm(name string) Algorithm {
	a, err := AlgorithmNamed(name)
	if err != nil {
		panic(err)
	}
	return a
}

// scopedSpec is a limit that each node keeps for itself.
func scopedSpec(c Contract, warmUp time.Duration) Spec {
	s := specOf(c)
	s.Scope, s.WarmUp = ScopeNode, warmUp
	return s
}

// scriptOf is the script that reserves by an algorithm.
func scriptOf(name string) string {
	a := algorithm(name)
	return lua.Reserve(a.Name, a.Script)
}
