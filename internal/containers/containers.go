// Package containers starts real Redis and Kafka servers for tests, with
// testcontainers-go. Images can be named in the environment:
// DISPATCHER_TEST_REDIS_IMAGE, DISPATCHER_TEST_KAFKA_IMAGE and
// DISPATCHER_TEST_KAFKA_OLD_IMAGE. DISPATCHER_TEST_VALKEY_IMAGE has no default: without
// it tests that need Valkey are skipped. The same holds for redis-cell and
// DISPATCHER_TEST_REDIS_CELL, the module's path in the Redis image. With
// DISPATCHER_TEST_NOISY=1 a missed figure is printed as not shown.
//
// Without a Docker engine, or with -short, a test is skipped and says so;
// DISPATCHER_REQUIRE_DOCKER=1 turns the skip into a failure. Each test ends
// its own containers. Ports are published on loopback only.
package containers

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
)

// Server is one server in a container of its own.
type Server struct {
	Addr string // host:port on loopback

	kafka *KafkaSet // nil: it is no Kafka
}

// Pause stops a Kafka's process, or lets it go on. Meanwhile it takes connections and
// requests, as a host that hangs does, and answers none.
func (s *Server) Pause(t testing.TB, yes bool) {
	t.Helper()
	signal := "CONT"
	if yes {
		signal = "STOP"
	}
	s.kafka.signal(s.kafka.ports[0], signal)
}

// Need skips the test, or fails it, if containers can't be started.
func Need(t testing.TB) {
	t.Helper()
	required := os.Getenv("DISPATCHER_REQUIRE_DOCKER") == "1"
	if testing.Short() && !required {
		t.Skip("needs containers: left out by -short")
	}
	provider, err := testcontainers.NewDockerProvider()
	if err == nil {
		defer func() { _ = provider.Close() }()
		err = provider.Health(t.Context())
	}
	switch {
	case err == nil:
	case required:
		t.Fatalf("DISPATCHER_REQUIRE_DOCKER=1, and no Docker engine answers: %v", err)
	default:
		t.Skipf("needs containers: no Docker engine answers: %v", err)
	}
}

// Figure fails the test where a figure was missed. With DISPATCHER_TEST_NOISY=1
// it is printed as not shown instead: such a machine loses its processors for
// minutes at a time, and figures from then mean nothing.
func Figure(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	switch {
	case ok:
	case os.Getenv("DISPATCHER_TEST_NOISY") == "1":
		t.Logf("NOT SHOWN on this noisy machine: "+format, args...)
	default:
		t.Errorf(format, args...)
	}
}

// start starts a container. Each port is the same inside and on loopback outside.
func start(t testing.TB, request testcontainers.ContainerRequest, ports ...int) testcontainers.Container {
	t.Helper()
	Need(t)
	bindings := network.PortMap{}
	for _, p := range ports {
		port := network.MustParsePort(strconv.Itoa(p) + "/tcp")
		request.ExposedPorts = append(request.ExposedPorts, port.String())
		bindings[port] = []network.PortBinding{{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: strconv.Itoa(p)}}
	}
	request.HostConfigModifier = func(h *container.HostConfig) { h.PortBindings = bindings }
	c, err := testcontainers.GenericContainer(t.Context(), testcontainers.GenericContainerRequest{Started: true, ContainerRequest: request})
	testcontainers.CleanupContainer(t, c)
	if err != nil {
		t.Fatalf("start a container of %s: %v", request.Image, err)
	}
	return c
}

// Ports of containers lie below those that the kernel gives to connections, so
// that no connection takes one before its server listens.
const firstPort, lastPort = 20_000, 32_000

// freePorts are different ports on loopback that nothing listens on.
func freePorts(t testing.TB, count int) []int {
	t.Helper()
	var lc net.ListenConfig
	var ports []int
	for range 100 * (count + 1) {
		if len(ports) == count {
			return ports
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		if l, err := lc.Listen(t.Context(), "tcp", Addr(port)); err == nil {
			defer func() { _ = l.Close() }() // held until all are found, so that none is found twice
			ports = append(ports, port)
		}
	}
	t.Fatalf("found only %d of %d free ports from %d to %d", len(ports), count, firstPort, lastPort)
	return nil
}

func freePort(t testing.TB) int { t.Helper(); return freePorts(t, 1)[0] }

func image(variable, public string) string {
	if name := os.Getenv(variable); name != "" {
		return name
	}
	return public
}
