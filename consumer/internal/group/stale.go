package group

import (
	"context"
	"slices"
	"time"

	"dispatcher/consumer/internal/broker"
	"dispatcher/internal/wait"

	"github.com/segmentio/kafka-go"
)

// staleCheck is how often a node asks whether its stale member is gone.
const staleCheck = 250 * time.Millisecond

// awaitStale waits, for a session at most, until the group has forgotten a member with this
// node's client id: the node itself, before it was killed. A join before that would have all
// members join again and wait for the dead one: the whole fleet would stand still, and not
// the dead node's partitions alone. It does not wait where the members can't be listed, or
// where the client id is the default, which other nodes may have as well.
func (g *Group) awaitStale(ctx context.Context) {
	if g.o.Connection.ClientID == broker.DefaultClientID {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, g.o.Session)
	defer cancel()
	for n := 0; ; n++ {
		stale, err := g.hasStale(ctx)
		if err != nil {
			g.o.Log.Debug("could not list the members of the group", "error", err)
		}
		if !stale {
			return
		}
		if n == 0 {
			g.o.Log.Info("the group still has a stale member with this node's client id, waiting until it is gone", "client", g.o.Connection.ClientID, "at_most", g.o.Session)
		}
		if !wait.For(ctx, staleCheck) {
			return
		}
	}
}

func (g *Group) hasStale(ctx context.Context) (bool, error) {
	all, err := g.o.Client.Members(ctx, g.o.ID)
	return slices.ContainsFunc(all, func(m kafka.DescribeGroupsResponseMember) bool {
		return m.ClientID == g.o.Connection.ClientID
	}), err
}
