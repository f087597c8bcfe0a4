package containers

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

// Cluster is three primaries with a replica each.
type Cluster struct {
	*RedisSet
	Nodes []int // ports; the primaries first, when it begins
}

// RedisCluster starts one; a silent primary counts as down after a second and
// a half.
func RedisCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{RedisSet: RedisSetOf(t, 6, nil)}
	for i := range 6 {
		port := c.take()
		c.server(port, []string{
			"--port", strconv.Itoa(port), "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(10000 + i),
			"--cluster-config-file", fmt.Sprintf("nodes-%d.conf", port), "--cluster-node-timeout", "1500",
			"--cluster-announce-ip", "127.0.0.1", "--repl-diskless-sync-delay", "0",
			"--min-replicas-to-write", "0", "--cluster-migration-barrier", "5",
		})
		c.Nodes = append(c.Nodes, port)
	}
	for i, port := range c.Nodes {
		c.await(port, "PONG", "ping")
		if i > 0 {
			c.CLI(c.Nodes[0], "cluster", "meet", "127.0.0.1", strconv.Itoa(port), strconv.Itoa(10000+i))
		}
	}
	for i, bounds := range [][2]int{{0, 5460}, {5461, 10922}, {10923, 16383}} {
		c.CLI(c.Nodes[i], "cluster", "addslotsrange", strconv.Itoa(bounds[0]), strconv.Itoa(bounds[1]))
	}
	for i := range 3 {
		c.await(c.Nodes[3+i], "cluster_known_nodes:6", "cluster", "info")
		id := c.ID(c.Nodes[i])
		c.await(c.Nodes[3+i], id, "cluster", "nodes")
		c.await(c.Nodes[3+i], "OK", "cluster", "replicate", id)
	}
	for i, port := range c.Nodes {
		c.await(port, "cluster_state:ok", "cluster", "info")
		if i >= 3 {
			c.await(port, "master_link_status:up", "info", "replication")
		}
	}
	return c
}

// ID is the name that the cluster knows the node of a port by.
func (c *Cluster) ID(port int) string {
	c.t.Helper()
	return c.CLI(port, "cluster", "myid")
}

// Slot is the hash slot of a key.
func (c *Cluster) Slot(key string) int {
	c.t.Helper()
	slot, err := strconv.Atoi(c.CLI(c.Nodes[0], "cluster", "keyslot", key))
	if err != nil {
		c.t.Fatal(err)
	}
	return slot
}

// Owner is the port of the primary that has a hash slot, as the node of the
// port asked sees it.
func (c *Cluster) Owner(slot, asked int) int {
	c.t.Helper()
	node := goredis.NewClient(&goredis.Options{Addr: Addr(asked)})
	defer func() { _ = node.Close() }()
	shards, err := node.ClusterShards(c.t.Context()).Result()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, shard := range shards {
		for _, r := range shard.Slots {
			for _, n := range shard.Nodes {
				if r.Start <= int64(slot) && int64(slot) <= r.End && n.Role == "master" && n.Health == "online" {
					return int(n.Port)
				}
			}
		}
	}
	return 0
}

// Move takes a hash slot and its keys from one primary to another, step by step
// as an operator's tool does.
func (c *Cluster) Move(slot, from, to int) {
	c.t.Helper()
	n, source, target := strconv.Itoa(slot), c.ID(from), c.ID(to)
	c.CLI(to, "cluster", "setslot", n, "importing", source)
	c.CLI(from, "cluster", "setslot", n, "migrating", target)
	for {
		keys := c.CLI(from, "cluster", "getkeysinslot", n, "10")
		if keys == "" {
			break
		}
		c.CLI(from, append([]string{"migrate", "127.0.0.1", strconv.Itoa(to), "", "0", "1000", "keys"}, strings.Split(keys, "\n")...)...)
	}
	for _, port := range []int{to, from} {
		c.CLI(port, "cluster", "setslot", n, "node", target)
	}
}
