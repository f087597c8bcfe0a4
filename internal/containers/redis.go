package containers

import (
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go/wait"
)

// Redis starts a Redis 7 that keeps nothing on disk: started again, it is
// empty.
func Redis(t testing.TB) *Server {
	t.Helper()
	return start(t, spec{
		image: image("DISPATCHER_TEST_REDIS_IMAGE", "redis:7"),
		port:  6379,
		host:  freePort(t),
		entry: []string{"redis-server", "--protected-mode", "no", "--save", "", "--appendonly", "no"},
		ready: wait.ForLog("Ready to accept connections").WithStartupTimeout(time.Minute),
	})
}
