package containers

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// SentinelMaster is the name under which the sentinels know the master.
const SentinelMaster = "mymaster"

// Sentinel is a primary with two replicas, watched by three sentinels.
type Sentinel struct {
	*RedisSet
	Primary   int
	Replicas  []int
	Sentinels []int
	down      int // milliseconds after which a silent primary counts as down
}

// sentinelText is a sentinel's file; it rewrites it. Its accounts are the
// sentinels' own, and not those of the servers.
const sentinelText = `%[8]s
daemonize yes
pidfile %[2]s
logfile /tmp/%[1]d.log
dir /tmp
protected-mode no
sentinel announce-ip 127.0.0.1
sentinel announce-port %[1]d
sentinel monitor mymaster 127.0.0.1 %[3]d 2
sentinel down-after-milliseconds mymaster %[4]d
sentinel failover-timeout mymaster 6000
user default off
user watcher on >%[5]s ~* &* +@all
user client on >%[6]s &* %[7]s
sentinel sentinel-user watcher
sentinel sentinel-pass %[5]s
`

// SentinelUser and SentinelPassword are the account of clients at the sentinels, and
// SentinelRights are its rights.
const (
	SentinelUser     = "client"
	SentinelPassword = "clientword"
	SentinelRights   = "-@all +auth +hello +ping +client|setname +subscribe +sentinel|get-master-addr-by-name +sentinel|sentinels"

	watcher     = "watcher"
	watcherWord = "watchword"
)

// RedisSentinel starts them. With strict, a primary that no replica has
// answered for a second refuses writes.
func RedisSentinel(t testing.TB, strict bool) *Sentinel {
	t.Helper()
	return sentinels(RedisSetOf(t, 6, nil), strict)
}

// RedisSentinelTLS starts them with TLS everywhere, to one another too. The set
// takes six processes, and talks TLS.
func RedisSentinelTLS(t testing.TB, set *RedisSet) *Sentinel {
	t.Helper()
	return sentinels(set, true)
}

func sentinels(set *RedisSet, strict bool) *Sentinel {
	s := &Sentinel{RedisSet: set, down: 2500}
	s.t.Helper()
	args := []string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}
	if strict {
		args = append(args, "--min-replicas-to-write", "1", "--min-replicas-max-lag", "1")
	}
	s.Primary = s.Start(args...)
	for range 2 {
		s.Replicas = append(s.Replicas, s.Start(append(args, "--replicaof", "127.0.0.1", strconv.Itoa(s.Primary))...))
	}
	s.await(s.Primary, "connected_slaves:2", "info", "replication")
	for _, port := range s.Replicas {
		s.await(port, "master_link_status:up", "info", "replication")
	}
	for range 3 {
		s.Sentinels = append(s.Sentinels, s.sentinel())
	}
	for _, port := range s.Sentinels {
		s.await(port, "num-other-sentinels\n2", login("sentinel", "master", SentinelMaster)...)
		s.await(port, "num-slaves\n2", login("sentinel", "master", SentinelMaster)...)
	}
	return s
}

func (s *Sentinel) sentinel() int {
	s.t.Helper()
	port := s.take()
	text := fmt.Sprintf(sentinelText, port, pidfile(port), s.Primary, s.down, watcherWord, SentinelPassword, SentinelRights, s.listensText(port))
	file := fmt.Sprintf("/tmp/sentinel-%d.conf", port)
	s.Exec("sh", "-c", fmt.Sprintf("cat >%s <<'P'\n%sP\nredis-server %s --sentinel", file, text, file))
	return port
}

// listensText says in a sentinel's file how it listens on a port.
func (s *Sentinel) listensText(port int) string {
	var text strings.Builder
	flags := s.listens(port)
	for i := 0; i < len(flags); i += 2 {
		fmt.Fprintf(&text, "%s %s\n", strings.TrimPrefix(flags[i], "--"), flags[i+1])
	}
	return text.String()
}

// login is a command for a sentinel, as another sentinel gives it.
func login(cmd ...string) []string {
	return append([]string{"--no-auth-warning", "--user", watcher, "--pass", watcherWord}, cmd...)
}
