package containers

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/exec"
)

// processes is a container into which servers are started one by one. Each port
// is the same inside and on loopback outside.
type processes struct {
	t    testing.TB
	c    testcontainers.Container
	free []int // ports that no process has yet
}

// idle waits for processes that are started into the container one by one.
const idle = `trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done`

// startProcesses starts a container of an image for that many processes, and puts the
// files into it: their paths and contents.
func startProcesses(t testing.TB, name string, count int, files map[string][]byte) *processes {
	t.Helper()
	p := &processes{t: t, free: freePorts(t, count)}
	request := testcontainers.ContainerRequest{Image: name, Entrypoint: []string{"sh", "-c", idle}}
	for path, text := range files {
		request.Files = append(request.Files, testcontainers.ContainerFile{Reader: bytes.NewReader(text), ContainerFilePath: path, FileMode: 0o644})
	}
	p.c = start(t, request, p.free...)
	return p
}

// take returns a port that no process has yet.
func (p *processes) take() int {
	p.t.Helper()
	if len(p.free) == 0 {
		p.t.Fatal("got more processes than the container has ports")
	}
	port := p.free[0]
	p.free = p.free[1:]
	return port
}

func logfile(port int) string { return fmt.Sprintf("/tmp/%d.log", port) }

func pidfile(port int) string { return fmt.Sprintf("/tmp/%d.pid", port) }

func (p *processes) signal(port int, name string) {
	p.t.Helper()
	p.Exec("sh", "-c", fmt.Sprintf("kill -%s $(cat %s)", name, pidfile(port)))
}

// End ends the container before the test ends.
func (p *processes) End() {
	p.t.Helper()
	if err := testcontainers.TerminateContainer(p.c); err != nil {
		p.t.Errorf("end a container: %v", err)
	}
}

// Exec runs a command in the container, and fails the test if the command does.
func (p *processes) Exec(cmd ...string) string {
	p.t.Helper()
	text, err := p.try(cmd...)
	if err != nil {
		p.t.Fatalf("run %q: %v: %s", cmd, err, text)
	}
	return strings.TrimSpace(text)
}

func (p *processes) try(cmd ...string) (string, error) {
	code, out, err := p.c.Exec(p.t.Context(), cmd, exec.Multiplexed())
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(out)
	if err == nil && code != 0 {
		err = fmt.Errorf("code %d", code)
	}
	return string(text), err
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
