package containers

import (
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go/wait"
)

// RedisWith starts a Redis 7 that keeps nothing on disk, with more arguments
// for the server.
func RedisWith(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, spec{
		image: image("DISPATCHER_TEST_REDIS_IMAGE", "redis:7"),
		port:  6379,
		host:  freePort(t),
		entry: append([]string{"redis-server", "--protected-mode", "no", "--save", "", "--appendonly", "no"}, args...),
		ready: wait.ForLog("Ready to accept connections").WithStartupTimeout(time.Minute),
	})
}
