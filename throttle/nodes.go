package throttle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Node is one node of the fleet, as it last came by in Redis.
type Node struct {
	ID    string        // unique per start
	Name  string        // as its configuration says
	Knows time.Time     // the Changed of the newest settings that it knows; zero: only those of its file
	Seen  time.Duration // ago, by Redis's clock
}

const (
	goneAfter  = 9 * time.Second  // a node that was not here for longer is missing: it polls every 4 s at least; as in book.lua
	missed     = time.Minute      // a missing node is gone after this: it has to ask Redis before its next call
	forgotten  = 10 * time.Minute // its field is removed
	awaitEvery = 20 * time.Millisecond
	nodeRandom = len("-0123456789abcdef") // what nodeID adds
)

// Has reports whether the node knows these settings or newer ones.
func (n Node) Has(s Settings) bool { return !n.Knows.Before(s.Changed) }

// Missing reports whether the node died, stands still or is cut off: it has not
// signed off, and was not here for longer than any node that works.
func (n Node) Missing() bool { return n.Seen > goneAfter }

// Nodes returns the nodes that are there, by name, and those that have been missing
// for less than a minute.
func (c *Control) Nodes(ctx context.Context) ([]Node, error) {
	if _, err := c.Get(ctx); err != nil {
		return nil, err
	}
	return c.nodes(ctx)
}

// nodes are those that are there or missing. Fields of nodes that ended long ago
// are removed on the way.
func (c *Control) nodes(ctx context.Context) ([]Node, error) {
	fields, err := c.rdb.HGetAll(ctx, c.keys.nodes).Result()
	if err != nil {
		return nil, fmt.Errorf("read the nodes of limit %q: %w", c.name, err)
	}
	now, err := c.Now(ctx)
	if err != nil {
		return nil, err
	}
	var here []Node
	var old []string
	for id, value := range fields {
		n, seen := decodeNode(id, value)
		away := now.Sub(seen).Abs() // a clock that was set back shows nodes of the future
		n.Seen = max(0, now.Sub(seen))
		switch {
		case away > forgotten:
			old = append(old, id)
		case away <= goneAfter || seen.Before(now) && away <= missed:
			here = append(here, n)
		}
	}
	here = withoutReplaced(here)
	if len(old) > 0 {
		// A node that comes by between is back at its next look.
		if err := c.rdb.HDel(ctx, c.keys.nodes, old...).Err(); err != nil {
			return nil, fmt.Errorf("forget old nodes of limit %q: %w", c.name, err)
		}
	}
	slices.SortFunc(here, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	return here, nil
}

// withoutReplaced leaves out the missing nodes that were started again under their
// name.
func withoutReplaced(nodes []Node) []Node {
	works := map[string]bool{}
	for _, n := range nodes {
		works[n.Name] = works[n.Name] || !n.Missing()
	}
	return slices.DeleteFunc(nodes, func(n Node) bool { return n.Missing() && works[n.Name] })
}

// decodeNode reads what book.lua wrote; what is no number is long ago.
func decodeNode(id, value string) (n Node, seen time.Time) {
	var us, atUS, since int64
	_, _ = fmt.Sscan(value, &us, &atUS, &since)
	n = Node{ID: id, Name: id, Knows: fromMicros(us)}
	if cut := len(id) - nodeRandom; cut > 0 && id[cut] == '-' {
		n.Name = id[:cut]
	}
	return n, time.UnixMicro(atUS)
}

// Now is the clock of the Redis that holds the limit.
func (c *Control) Now(ctx context.Context) (time.Time, error) {
	rdb, err := holder(ctx, c.rdb, c.keys.limit)
	if err != nil {
		return time.Time{}, err
	}
	now, err := rdb.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("read redis's clock: %w", err)
	}
	return now, nil
}

// holder is the server that holds a key.
func holder(ctx context.Context, rdb redis.UniversalClient, key string) (redis.Cmdable, error) {
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok {
		return rdb, nil
	}
	master, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("find the master that holds %s: %w", key, err)
	}
	return master, nil
}

// NotEverywhereError says that nodes did not learn new settings in time.
type NotEverywhereError struct {
	Revision int64
	Lack     []Node // those that don't know it; none of them has come by since
	Of       int    // nodes in all; 0: no node works with the limit
}

func (e *NotEverywhereError) Error() string {
	if e.Of == 0 {
		return fmt.Sprintf("revision %d is set, and no node works with this limit; it is in force for those that start", e.Revision)
	}
	names := make([]string, len(e.Lack))
	for i, n := range e.Lack {
		names[i] = fmt.Sprintf("%s was not seen for %s", n.Name, n.Seen.Round(100*time.Millisecond))
	}
	return fmt.Sprintf("revision %d is in force on %d of %d nodes; %s", e.Revision, e.Of-len(e.Lack), e.Of, strings.Join(names, ", "))
}

// Await waits until each node knows these settings or newer ones, and returns how
// many nodes that are. The error is a [NotEverywhereError] when the context ends
// first, when only missing nodes lack them, and when there is no node.
func (c *Control) Await(ctx context.Context, s Settings) (n int, took time.Duration, err error) {
	begin := time.Now()
	ticker := time.NewTicker(awaitEvery)
	defer ticker.Stop()
	var late *NotEverywhereError
	for {
		nodes, err := c.nodes(ctx)
		took = time.Since(begin)
		if err == nil {
			lack := slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return n.Has(s) })
			late = &NotEverywhereError{Revision: s.Revision, Lack: lack, Of: len(nodes)}
			switch {
			case len(nodes) == 0 || len(lack) > 0 && !slices.ContainsFunc(lack, func(n Node) bool { return !n.Missing() }):
				return len(nodes), took, late
			case len(lack) == 0:
				return len(nodes), took, nil
			}
		} else if ctx.Err() == nil && !quiet(err) { // a time-out may be the end of ctx, told by the network first
			return 0, took, err
		}
		select {
		case <-ticker.C:
			continue
		case <-ctx.Done():
		}
		if late == nil {
			return 0, took, errors.Join(err, context.Cause(ctx))
		}
		return late.Of, took, late
	}
}

// Limits returns the names of the limits that Redis holds in a namespace. A
// namespace lies on one server of a Cluster.
func Limits(ctx context.Context, rdb redis.UniversalClient, namespace string) ([]string, error) {
	if err := CheckName("namespace", namespace); err != nil {
		return nil, err
	}
	prefix := keysOf(namespace, "").limit
	server, err := holder(ctx, rdb, prefix)
	if err != nil {
		return nil, err
	}
	names := []string{}
	const page = 1000
	keys := server.Scan(ctx, 0, prefix+"*", page).Iterator()
	for keys.Next(ctx) {
		names = append(names, strings.TrimPrefix(keys.Val(), prefix))
	}
	if err := keys.Err(); err != nil {
		return nil, fmt.Errorf("list the limits of namespace %q: %w", namespace, err)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
