package consumer

import (
	"context"
	"slices"
	"time"

	"dispatcher/consumer/internal/broker"

	"dispatcher/internal/wait"

	"github.com/segmentio/kafka-go"
)

// ghostLook is how often a node looks whether its ghost is gone.
const ghostLook = 250 * time.Millisecond

// awaitGhost waits, for a session at most, until the group has forgotten a member
// with this node's name: itself, before it was killed. To join earlier would have
// all members join again and then wait for the dead one, so that the whole fleet
// stood still and not the dead node's partitions alone. What can't be found out
// is not waited for, and a name that others may have as well says nothing.
func (g *group) awaitGhost(ctx context.Context) {
	if g.c.opts.ClientID == broker.DefaultClientID {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, g.c.opts.Session)
	defer cancel()
	for n := 0; ; n++ {
		there, err := g.hasGhost(ctx)
		if err != nil {
			g.log().Debug("could not ask who is in the group", "error", err)
		}
		if !there {
			return
		}
		if n == 0 {
			g.log().Info("the group still has a member of this node's name, waiting until it is gone", "client", g.c.opts.ClientID, "at_most", g.c.opts.Session)
		}
		if !wait.For(ctx, ghostLook) {
			return
		}
	}
}

func (g *group) hasGhost(ctx context.Context) (bool, error) {
	all, err := g.c.client.Members(ctx, g.id)
	return slices.ContainsFunc(all, func(m kafka.DescribeGroupsResponseMember) bool {
		return m.ClientID == g.c.opts.ClientID
	}), err
}
