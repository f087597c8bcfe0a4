package containers

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"dispatcher/internal/wait"
)

// RedisSet is several Redis processes in one container. Each listens on the
// same port inside and on loopback outside, so that the addresses they announce
// are good for clients too. One of them can die without the machine being held up by a
// container that stops.
type RedisSet struct {
	*processes
	tls *TLSFiles // nil: plain
}

// TLSFiles are the paths in the container of the files that servers use for TLS.
type TLSFiles struct{ Authority, Cert, Key string }

// flags are a server's, or a sentinel's in its file without the dashes.
func (f TLSFiles) flags() []string {
	return []string{
		"--tls-ca-cert-file", f.Authority, "--tls-cert-file", f.Cert, "--tls-key-file", f.Key, "--tls-auth-clients", "no",
		"--tls-replication", "yes",
	}
}

// RedisSetOf starts a container of the Redis image for that many
// processes, and puts the files into it: their paths and contents.
func RedisSetOf(t testing.TB, processes int, files map[string][]byte) *RedisSet {
	t.Helper()
	return &RedisSet{processes: startProcesses(t, image("DISPATCHER_TEST_REDIS_IMAGE", "redis:7"), processes, files)}
}

// ValkeySetOf does the same with the Valkey image of the environment, which has
// to know its server by Redis's name too, as the official ones do. Without one
// the test is skipped.
func ValkeySetOf(t testing.TB, processes int) *RedisSet {
	t.Helper()
	name := image("DISPATCHER_TEST_VALKEY_IMAGE", "")
	if name == "" {
		t.Skip("not shown: needs DISPATCHER_TEST_VALKEY_IMAGE, the name of a Valkey image")
	}
	return &RedisSet{processes: startProcesses(t, name, processes, nil)}
}

// Start runs one more redis-server with these arguments and returns its port.
func (s *RedisSet) Start(args ...string) int {
	s.t.Helper()
	port := s.take()
	s.server(port, append(s.listens(port), args...))
	return port
}

// listens are the arguments by which a server listens on a port.
func (s *RedisSet) listens(port int) []string {
	if s.tls == nil {
		return []string{"--port", strconv.Itoa(port)}
	}
	return append([]string{"--port", "0", "--tls-port", strconv.Itoa(port)}, s.tls.flags()...)
}

// cli is a redis-cli command for a port.
func (s *RedisSet) cli(port int, args []string) []string {
	cmd := []string{"redis-cli", "-p", strconv.Itoa(port)}
	if s.tls != nil {
		cmd = append(cmd, "--tls", "--cacert", s.tls.Authority)
	}
	return append(cmd, args...)
}

// TLS makes all that is started from now on talk TLS only. The files are in the
// container.
func (s *RedisSet) TLS(files TLSFiles) { s.tls = &files }

func (s *RedisSet) server(port int, args []string) {
	s.t.Helper()
	s.Exec("sh", "-c", fmt.Sprintf(": >%s", logfile(port)))
	s.Exec(append([]string{
		"redis-server", "--daemonize", "yes", "--pidfile", pidfile(port), "--logfile", logfile(port),
		"--protected-mode", "no", "--save", "", "--appendonly", "no", "--dbfilename", fmt.Sprintf("%d.rdb", port), "--dir", "/tmp",
	}, args...)...)
	// The published port takes connections before the server does, so its log is asked.
	s.Exec("sh", "-c", fmt.Sprintf("i=0; until grep -q 'Ready to accept' %[1]s; do i=$((i+1)); [ $i -lt 600 ] || { cat %[1]s; exit 1; }; sleep 0.05; done", logfile(port)))
}

// Kill ends the process of a port at once.
func (s *RedisSet) Kill(port int) { s.t.Helper(); s.signal(port, "KILL") }

// Stop holds the process of a port up until [RedisSet.Continue].
func (s *RedisSet) Stop(port int) { s.t.Helper(); s.signal(port, "STOP") }

// Continue lets a stopped process go on.
func (s *RedisSet) Continue(port int) { s.t.Helper(); s.signal(port, "CONT") }

// CLI runs redis-cli on a port.
func (s *RedisSet) CLI(port int, args ...string) string {
	s.t.Helper()
	return s.Exec(s.cli(port, args)...)
}

// await repeats a command on a port until the answer holds the text.
func (s *RedisSet) await(port int, want string, args ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for {
		last, err := s.try(s.cli(port, args)...)
		if err == nil && strings.Contains(last, want) {
			return
		}
		if !wait.For(ctx, 100*time.Millisecond) {
			s.t.Fatalf("redis on port %d never answered %q to %q; last %q, %v", port, want, args, last, err)
		}
	}
}

// Again starts a killed process with these arguments; its data is lost.
func (s *RedisSet) Again(port int, args ...string) {
	s.t.Helper()
	s.server(port, append(s.listens(port), args...))
}
