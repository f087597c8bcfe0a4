package throttle_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"dispatcher/internal/containers"
	"dispatcher/internal/redisclient"
	"dispatcher/throttle/phase"
)

func sentinelOptions(s *containers.Sentinel) redisclient.Options {
	return redisclient.Options{
		Addrs: containers.Addrs(s.Sentinels...), Master: containers.SentinelMaster,
		SentinelUsername: containers.SentinelUser, SentinelPassword: containers.SentinelPassword,
	}
}

// A primary under Sentinel dies: the cap holds, and work goes on with the next.
func TestRedisSentinelFailoverKeepsTheCapReal(t *testing.T) {
	t.Parallel()
	s := containers.RedisSentinel(t, true)
	outlivesItsPrimary(t, s, sentinelOptions(s))
}

// The same where everything talks TLS: nodes to sentinels and servers, and these
// to one another.
func TestRedisSentinelFailoverOverTLSReal(t *testing.T) {
	t.Parallel()
	set, authority := encrypted(t, 6, nil)
	s := containers.RedisSentinelTLS(t, set)
	options := sentinelOptions(s)
	options.TLS = authority.client(t)
	outlivesItsPrimary(t, s, options)
}

func outlivesItsPrimary(t *testing.T, s *containers.Sentinel, options redisclient.Options) {
	t.Helper()
	f := startRealFleet(t, usual(), clients(t, 3, options)...)
	f.works(time.Minute)
	fault := time.Now()
	s.Kill(s.Primary)
	f.goesOn(fault)
	f.halt()
}

// A primary hangs until another one is promoted, and comes back without knowing
// it: it may not give what the new one gives too.
func TestRedisSentinelOldMasterThatComesBackGivesNothingReal(t *testing.T) {
	t.Parallel()
	s := containers.RedisSentinel(t, true)
	f := startRealFleet(t, usual(), clients(t, 3, sentinelOptions(s))...)
	f.works(time.Minute)
	fault := time.Now()
	s.Stop(s.Primary)
	f.comesBack(fault)
	s.Continue(s.Primary)
	f.goesOn(fault)
	f.works(time.Minute)
	f.halt()
}

// A primary of a Cluster dies: the cap holds, and work goes on with its replica.
func TestRedisClusterPrimaryDiesReal(t *testing.T) {
	t.Parallel()
	c := containers.RedisCluster(t)
	for _, port := range c.Nodes {
		c.CLI(port, append([]string{"acl", "setuser", account, "on", ">" + password}, strings.Fields(rights+" +cluster|slots")...)...)
	}
	f := startRealFleet(t, usual(), clients(t, 3, redisclient.Options{
		Addrs: containers.Addrs(c.Nodes...), Username: account, Password: password,
	})...)
	f.works(time.Minute)
	owner := c.Owner(c.Slot(limitKey), c.Nodes[0])
	fault := time.Now()
	c.Kill(owner)
	f.goesOn(fault)
	f.halt()
}

// A primary of a Cluster hangs until its replica is promoted, and comes back: it
// may not give what the new one gives too.
func TestRedisClusterOldPrimaryThatComesBackGivesNothingReal(t *testing.T) {
	t.Parallel()
	c := containers.RedisCluster(t)
	f := startRealFleet(t, usual(), clients(t, 3, redisclient.Options{Addrs: containers.Addrs(c.Nodes...)})...)
	f.works(time.Minute)
	owner := c.Owner(c.Slot(limitKey), c.Nodes[0])
	fault := time.Now()
	c.Stop(owner)
	f.comesBack(fault)
	c.Continue(owner)
	f.goesOn(fault)
	f.works(time.Minute)
	f.halt()
}

const limitKey = "dispatcher:{topology}:limit:provider"

// The namespace's hash slot moves to another primary in mid-run: the cap holds,
// and work goes on there. One address is enough to find the others by, where it
// is said that it stands for a Cluster.
func TestRedisClusterSlotMovesReal(t *testing.T) {
	t.Parallel()
	c := containers.RedisCluster(t)
	slot := c.Slot(limitKey)
	from := c.Owner(slot, c.Nodes[0])
	to := c.Nodes[0]
	if to == from {
		to = c.Nodes[1]
	}
	refuses(t, redisclient.Options{Addrs: containers.Addrs(to)}, phase.Away, "MOVED")
	f := startRealFleet(t, usual(), clients(t, 3, redisclient.Options{Addrs: containers.Addrs(to), Cluster: true})...)
	f.works(time.Minute)
	fault := time.Now()
	c.Move(slot, from, to)
	f.goesOn(fault)
	if got := c.Owner(slot, to); got != to {
		t.Errorf("slot %d is on port %d, want %d", slot, got, to)
	}
	f.halt()
}

// Where clients still reach an old master while a new one serves the others,
// only the old one itself can stop it: it must refuse writes that no replica
// takes. Without that rule both give the whole cap.
func TestRedisTwoMastersAtOnceReal(t *testing.T) {
	t.Parallel()
	s := containers.RedisSetOf(t, 4, nil)
	for _, row := range []struct {
		name string
		args []string
		over bool
	}{
		{"min-replicas-to-write 1", []string{"--min-replicas-to-write", "1", "--min-replicas-max-lag", "1"}, false},
		{"none", nil, true},
	} {
		old := s.Start(row.args...)
		promoted := s.Start("--replicaof", "127.0.0.1", strconv.Itoa(old), "--repl-diskless-sync-delay", "0")
		f := startRealFleet(t, usual(), client(t, redisclient.Options{Addrs: containers.Addrs(old)}), client(t, redisclient.Options{Addrs: containers.Addrs(promoted)}))
		f.works(time.Minute)
		f.says(1, phase.Away, "READONLY") // a replica gives nothing
		s.CLI(promoted, "replicaof", "no", "one")
		f.says(1, phase.Running, "")
		if !row.over {
			f.says(0, phase.Away, "NOREPLICAS")
		}
		f.works(time.Minute)
		pause(2 * time.Second)
		most := int(usual().Cap)
		if row.over {
			f.eventually(30*time.Second, func() bool { return f.fullest(time.Time{}) > most })
		}
		f.done()
		if got := f.fullest(time.Time{}); (got > most) != row.over {
			t.Errorf("%s: got %d calls in the fullest window; over the cap of %d: want %t", row.name, got, most, row.over)
		} else {
			t.Logf("%s: %d calls in the fullest window, the cap is %d", row.name, got, most)
		}
	}
}
