package containers

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go/wait"
)

// redisScript runs the server again two seconds after it has ended: a restart
// inside the container does not hold up the whole machine as a container's does.
const redisScript = `trap 'exit 0' TERM INT
while :; do
  redis-server --protected-mode no --save '' --appendonly no %s & wait $!
  sleep 2 & wait $!
done`

// modules loads redis-cell, where the image has it.
func modules() string {
	if path := os.Getenv("DISPATCHER_TEST_REDIS_CELL"); path != "" {
		return "--loadmodule '" + path + "'"
	}
	return ""
}

// Redis starts a Redis 7 that keeps nothing on disk. After SHUTDOWN it is away
// for two seconds, and then back and empty.
func Redis(t testing.TB) *Server {
	t.Helper()
	return redis(t, "sh", "-c", fmt.Sprintf(redisScript, modules()))
}

// RedisWith starts a Redis 7 that keeps nothing on disk, with more arguments
// for the server.
func RedisWith(t testing.TB, args ...string) *Server {
	t.Helper()
	return redis(t, append([]string{"redis-server", "--protected-mode", "no", "--save", "", "--appendonly", "no"}, args...)...)
}

func redis(t testing.TB, entry ...string) *Server {
	t.Helper()
	return start(t, spec{
		image: image("DISPATCHER_TEST_REDIS_IMAGE", "redis:7"),
		port:  6379,
		host:  freePort(t),
		entry: entry,
		ready: wait.ForLog("Ready to accept connections").WithStartupTimeout(time.Minute),
	})
}
