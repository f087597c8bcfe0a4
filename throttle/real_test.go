package throttle

import (
	"testing"

	"dispatcher/internal/containers"
)

// What the embedded Redis shows is shown again where it counts.
func TestLawsReal(t *testing.T) {
	t.Parallel()
	server := containers.Redis(t)
	rdb := NewClient(ClientOptions{Addrs: []string{server.Addr}})
	t.Cleanup(func() { _ = rdb.Close() })
	laws(t, rdb, 400)
}
