package containers

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/exec"
)

// processes is a container into which servers are started one by one. Each port
// is the same inside and on loopback outside.
type processes struct {
	t    testing.TB
	c    testcontainers.Container
	next int // of the ports that are not in use yet
	port []int
}

// idle waits for processes that are started into the container one by one.
const idle = `trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done`

// startProcesses starts a container of an image for that many processes, and puts the
// files into it: their paths and contents.
func startProcesses(t testing.TB, name string, count int, files map[string][]byte) *processes {
	t.Helper()
	Need(t)
	p := &processes{t: t}
	bindings := network.PortMap{}
	for range count {
		port := freePort(t)
		p.port = append(p.port, port)
		bindings[network.MustParsePort(strconv.Itoa(port)+"/tcp")] = []network.PortBinding{
			{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: strconv.Itoa(port)},
		}
	}
	request := testcontainers.ContainerRequest{
		Image:              name,
		Entrypoint:         []string{"sh", "-c", idle},
		HostConfigModifier: func(h *container.HostConfig) { h.PortBindings = bindings },
	}
	for port := range bindings {
		request.ExposedPorts = append(request.ExposedPorts, port.String())
	}
	for path, text := range files {
		request.Files = append(request.Files, testcontainers.ContainerFile{Reader: bytes.NewReader(text), ContainerFilePath: path, FileMode: 0o644})
	}
	c, err := testcontainers.GenericContainer(t.Context(), testcontainers.GenericContainerRequest{Started: true, ContainerRequest: request})
	testcontainers.CleanupContainer(t, c)
	if err != nil {
		t.Fatalf("start a container of %s: %v", name, err)
	}
	p.c = c
	return p
}

// take returns a port that no process has yet.
func (p *processes) take() int {
	p.t.Helper()
	if p.next == len(p.port) {
		p.t.Fatalf("got more than %d processes, want at most that many ports", p.next)
	}
	p.next++
	return p.port[p.next-1]
}

func logfile(port int) string { return fmt.Sprintf("/tmp/%d.log", port) }

func pidfile(port int) string { return fmt.Sprintf("/tmp/%d.pid", port) }

func (p *processes) signal(port int, name string) {
	p.t.Helper()
	p.Exec("sh", "-c", fmt.Sprintf("kill -%s $(cat %s)", name, pidfile(port)))
}

// Exec runs a command in the container, and fails the test if the command does.
func (p *processes) Exec(cmd ...string) string {
	p.t.Helper()
	code, out, err := p.c.Exec(p.t.Context(), cmd, exec.Multiplexed())
	if err != nil {
		p.t.Fatalf("run %q: %v", cmd, err)
	}
	text, err := io.ReadAll(out)
	if err != nil || code != 0 {
		p.t.Fatalf("run %q: code %d, %v: %s", cmd, code, err, text)
	}
	return strings.TrimSpace(string(text))
}

// Addr is a port's address, inside the container and outside.
func Addr(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Addrs are the addresses of ports.
func Addrs(ports ...int) []string {
	list := make([]string, 0, len(ports))
	for _, p := range ports {
		list = append(list, Addr(p))
	}
	return list
}
