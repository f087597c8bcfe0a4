package throttle

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// Algorithm is one way to keep a contract across the fleet: a script in
// lua/algorithms, and what it comes to. All of them are waited on alike: one
// goroutine a node asks, and either books ahead or is told when to come again.
type Algorithm struct {
	Name    string
	Promise string // what it admits, in one line

	// Strict: no window at the provider holds more than the cap, as long as
	// delivery times spread by no more than the guard.
	Strict bool

	// Ahead: slots are booked ahead of their time. The others are told yes or
	// when to ask again, and a yes is for now.
	Ahead bool

	// Worst is the most units that any window may hold at the provider.
	Worst func(Contract) int64

	// Share is the part of the cap, from 0 to 1, that is used while jobs wait.
	Share func(Contract) float64

	// Binds is how long after its time a unit still counts: part of the
	// standstill after a loss.
	Binds func(Contract) time.Duration

	// check refuses parameters that the algorithm can't honour.
	check func(Contract) []error
}

// DefaultAlgorithm is what a limit is kept by where nothing is said.
const DefaultAlgorithm = "token_bucket"

// Algorithms are all there are, the default one first.
func Algorithms() []Algorithm {
	return []Algorithm{
		tokenBucket(), leakyBucket(), gcra(), redisCell(), fixedWindow(), slidingWindowCounter(), slidingWindowLog(), slidingWindowList(),
	}
}

// AlgorithmNamed finds an algorithm; an empty name is the default one. The error
// is a [FieldError].
func AlgorithmNamed(name string) (Algorithm, error) {
	if name == "" {
		name = DefaultAlgorithm
	}
	all := Algorithms()
	i := slices.IndexFunc(all, func(a Algorithm) bool { return a.Name == name })
	if i >= 0 {
		return all[i], nil
	}
	names := make([]string, len(all))
	for i, a := range all {
		names[i] = a.Name
	}
	return Algorithm{}, &FieldError{Field: "algorithm", Value: name, Why: "must be one of " + strings.Join(names, ", ")}
}

// Check returns the algorithm of that name, and joins a [FieldError] for each
// setting that keeps it from keeping the contract.
func Check(name string, c Contract, r Rails) (Algorithm, error) {
	a, unknown := AlgorithmNamed(name)
	faults := []error{unknown, c.Validate()}
	if errors.Join(faults...) == nil {
		faults = a.check(c)
	}
	return a, errors.Join(append(faults, r.validate(c)...)...)
}

// Fence is how long the fleet stands still after Redis lost everything: until
// all that may have been given is over, and each node has had time to bring
// back the newest settings.
func (a Algorithm) Fence(c Contract) time.Duration {
	return max(c.Relearn(), c.Horizon+c.Lateness+a.Binds(c))
}
