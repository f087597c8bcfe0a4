package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"dispatcher/throttle/limit"
)

// Node is one node of the fleet, as of its last record in Redis.
type Node struct {
	ID    string        // unique per start
	Name  string        // as its configuration says
	Knows time.Time     // the Changed of the newest settings that it knows; zero: only those of its file
	Seen  time.Duration // ago, by Redis's clock
	Binds float64       // share of the time, of late, in which its jobs waited for the limit, from 0 to 1
}

const (
	missingAfter = 9 * time.Second          // a node that was not seen for longer is missing: it polls every 4 s at least; as in reserve/nodes.lua
	goneAfter    = time.Minute              // a missing node is gone after this: it has to ask Redis before its next call
	forgotten    = 10 * time.Minute         // its field is removed
	nodeRandom   = len("-0123456789abcdef") // what nodeID adds
)

// Has reports whether the node knows these settings or newer ones.
func (n Node) Has(s limit.Settings) bool { return !n.Knows.Before(s.Changed) }

// Missing reports whether the node died, stands still or is cut off: it has not
// signed off, and was not seen for longer than any node that works.
func (n Node) Missing() bool { return n.Seen > missingAfter }

// Nodes returns the nodes that work, by name, and those that have been missing
// for less than a minute.
func (c *Control) Nodes(ctx context.Context) ([]Node, error) {
	if _, err := c.Get(ctx); err != nil {
		return nil, err
	}
	p, err := c.Presence(ctx)
	return p.Nodes, err
}

// Presence is which nodes there were at one moment.
type Presence struct {
	Nodes []Node    // as [Control.Nodes] returns them
	At    time.Time // by Redis's clock
}

// Presence returns the nodes, and does not ask whether Redis knows the limit. Fields of nodes that ended long ago are removed
// on the way.
func (c *Control) Presence(ctx context.Context) (p Presence, err error) {
	fields, err := c.rdb.HGetAll(ctx, c.Keys.Nodes).Result()
	if err != nil {
		return p, fmt.Errorf("read the nodes of limit %q: %w", c.name, err)
	}
	now, err := c.Now(ctx)
	if err != nil {
		return p, err
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
		case away <= missingAfter || seen.Before(now) && away <= goneAfter:
			here = append(here, n)
		}
	}
	here = withoutReplaced(here)
	if len(old) > 0 {
		// A node that polls between is back with its next poll.
		if err := c.rdb.HDel(ctx, c.Keys.Nodes, old...).Err(); err != nil {
			return p, fmt.Errorf("forget old nodes of limit %q: %w", c.name, err)
		}
	}
	slices.SortFunc(here, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	return Presence{here, now}, nil
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

// decodeNode reads a record of reserve/nodes.lua; a value that is no number is long ago.
func decodeNode(id, value string) (n Node, seen time.Time) {
	var us, atUS, since, binds int64
	_, _ = fmt.Sscan(value, &us, &atUS, &since, &binds)
	n = Node{ID: id, Name: id, Knows: limit.FromMicros(us), Binds: float64(binds) / 1000}
	if cut := len(id) - nodeRandom; cut > 0 && id[cut] == '-' {
		n.Name = id[:cut]
	}
	return n, time.UnixMicro(atUS)
}
