package containers

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

// redisScript runs the server again two seconds after it has ended: a restart
// inside the container does not hold up the whole machine as a container's does.
const redisScript = `trap 'exit 0' TERM INT
while :; do
  redis-server --port %d --protected-mode no --save '' --appendonly no %s & wait $!
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
	port := freePort(t)
	return redis(t, port, "sh", "-c", fmt.Sprintf(redisScript, port, modules()))
}

// RedisWith starts a Redis 7 that keeps nothing on disk, with more arguments
// for the server.
func RedisWith(t testing.TB, args ...string) *Server {
	t.Helper()
	port := freePort(t)
	return redis(t, port, append([]string{"redis-server", "--port", strconv.Itoa(port), "--protected-mode", "no", "--save", "", "--appendonly", "no"}, args...)...)
}

func redis(t testing.TB, port int, entry ...string) *Server {
	t.Helper()
	start(t, testcontainers.ContainerRequest{
		Image:      image("DISPATCHER_TEST_REDIS_IMAGE", "redis:7"),
		Entrypoint: entry,
		WaitingFor: wait.ForLog("Ready to accept connections").WithStartupTimeout(time.Minute),
	}, port)
	return &Server{Addr: Addr(port)}
}
