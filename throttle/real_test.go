package throttle

import (
	"testing"

	"dispatcher/internal/containers"
)

// What the embedded Redis shows is shown again where it counts.
func TestLawsReal(t *testing.T) {
	t.Parallel()
	server := containers.Redis(t)
	laws(t, patient(t, server.Addr), 400, mutations)
}
