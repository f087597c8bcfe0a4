package group

import (
	"context"
	"slices"
	"time"

	"dispatcher/consumer/internal/broker"

	"dispatcher/internal/wait"

	"github.com/segmentio/kafka-go"
)

// staleCheck is how often a node looks whether its ghost is gone.
const staleCheck = 250 * time.Millisecond

// awaitStale waits, for a session at most, until the group has forgotten a member
// with this node's name: itself, before it was killed. To join earlier would have
// all members join again and then wait for the dead one, so that the whole fleet
// stood still and not the dead node's partitions alone. What can't be found out
// is not waited for, and a name that others may have as well says nothing.
func (g *Group) awaitStale(ctx context.Context) {
	if g.o.Connection.ClientID == broker.DefaultClientID {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, g.o.Session)
	defer cancel()
	for n := 0; ; n++ {
		there, err := g.hasStale(ctx)
		if err != nil {
			g.o.Log.Debug("could not ask who is in the group", "error", err)
		}
		if !there {
			return
		}
		if n == 0 {
			g.o.Log.Info("the group still has a member of this node's name, waiting until it is gone", "client", g.o.Connection.ClientID, "at_most", g.o.Session)
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
