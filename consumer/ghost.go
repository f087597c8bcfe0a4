package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
	if g.c.opts.ClientID == defaultClientID {
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
		if !pause(ctx, ghostLook) {
			return
		}
	}
}

func (g *group) hasGhost(ctx context.Context) (bool, error) {
	all, err := g.c.members(ctx, g.id)
	return slices.ContainsFunc(all, func(m kafka.DescribeGroupsResponseMember) bool {
		return m.ClientID == g.c.opts.ClientID
	}), err
}

// members are those of a group.
func (c *Consumer) members(ctx context.Context, group string) ([]kafka.DescribeGroupsResponseMember, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := c.client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return nil, fmt.Errorf("describe group: %w", err)
	}
	if len(res.Groups) != 1 {
		return nil, errors.New("describe group: it is not in the answer")
	}
	if err := res.Groups[0].Error; err != nil {
		return nil, fmt.Errorf("describe group: %w", err)
	}
	return res.Groups[0].Members, nil
}
