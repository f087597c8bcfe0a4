package integration

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"dispatcher/internal/containers"
)

// Bounds for one node that has many partitions of one broker.
const (
	manyPartitions = 300
	mostConns      = 10   // to the broker, for its one group
	mostIdle       = 0.03 // of a core, with nothing to do
	mostMemory     = 256 << 20
)

// One node with 300 partitions: what it costs while there is nothing to do, and
// how much memory it takes with a backlog in each of them that it may not touch.
//
//	go test -run TestManyPartitionsReal -v ./integration
func TestManyPartitionsReal(t *testing.T) {
	w := startServers(t, containers.Kafka)
	s := w.scene(t, faultCap, manyPartitions, 0)
	n := s.startOne(t)
	s.isReady(t, n)
	pass(40 * time.Second) // longer than unused connections are kept
	quiet(t)
	used, begin := n.cpuTime(t), time.Now()
	pass(20 * time.Second)
	share := float64(n.cpuTime(t)-used) / float64(time.Since(begin))
	conns := n.connections(t, w.kafka.Addr)
	t.Logf("%d idle partitions: %d connections to the broker, %.4f of a core, %d MiB", manyPartitions, conns, share, n.memory(t)>>20)
	if conns > mostConns {
		t.Errorf("got %d connections to the broker, want at most %d", conns, mostConns)
	}
	figure(t, share <= mostIdle, "got %.4f of a core used while idle, want at most %.2f", share, mostIdle)

	s.mustCommand(t, "limit", "pause", "provider", "--wait")
	const jobs = 2000 * manyPartitions
	s.fill(t, jobs)
	var rss []int
	for range 3 {
		pass(10 * time.Second)
		rss = append(rss, n.memory(t))
	}
	t.Logf("%d jobs of 200 bytes in %d partitions, the limit paused: %d, %d and %d MiB after 10, 20 and 30 s, %d connections to the broker",
		jobs, manyPartitions, rss[0]>>20, rss[1]>>20, rss[2]>>20, n.connections(t, w.kafka.Addr))
	stop(t, n)
	if got := s.judge.report(t, s.cap).Sent; got != 0 {
		t.Errorf("got %d calls while the limit was paused", got)
	}
	figure(t, rss[2] <= rss[0]+rss[0]/10, "got %d MiB after 30 s and %d after 10, want it flat", rss[2]>>20, rss[0]>>20)
	figure(t, rss[2] <= mostMemory, "got %d MiB, want at most %d", rss[2]>>20, mostMemory>>20)
}

// connections counts the node's open connections to an address.
func (n *node) connections(t *testing.T, addr string) (count int) {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	own := n.sockets(t)
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", n.cmd.Process.Pid, table))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line) // number, local, remote, state, …, inode at 9
			const established = "01"
			if len(f) > 9 && strings.HasSuffix(f[2], fmt.Sprintf(":%04X", number)) && f[3] == established && own[f[9]] {
				count++
			}
		}
	}
	return count
}

// sockets are the inodes of the node's sockets.
func (n *node) sockets(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", n.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{}
	for _, f := range files {
		target, err := os.Readlink(f)
		if inode, is := strings.CutPrefix(target, "socket:["); err == nil && is {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return own
}
