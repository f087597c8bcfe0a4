package dlq

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"dispatcher/consumer/internal/broker"

	"github.com/segmentio/kafka-go"
)

// membership is the right to settle the letters of one dead-letter topic: the
// membership of the group that remembers what is settled, with all partitions.
// Other commands that want the same wait as members without any.
//
// It is what makes reading an offset and writing it back one step: a commit
// carries the generation, Kafka refuses one of a generation that is over, and
// whoever holds the next one reads only when it has begun.
type membership struct {
	group, topic string
	cg           *kafka.ConsumerGroup
	watcher      sync.WaitGroup
	stop         context.CancelFunc

	mu      sync.Mutex
	gen     *kafka.Generation // in which this member holds; nil: none
	held    bool              // in the last generation it was part of
	member  bool              // of a generation, though another one may hold
	err     error             // the cluster refuses for good
	changed chan struct{}     // closed, and made anew, when any of these changes
}

// The group is told of a holder's death after this long.
const memberSession = 10 * time.Second

// joinAlone joins the group. It does not wait for that.
func joinAlone(ctx context.Context, o *Options, cl *broker.Client, topic string) (*membership, error) {
	h := &membership{group: o.Group + "." + topic, topic: topic, changed: make(chan struct{})}
	cg, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: h.group, Brokers: o.Brokers, Dialer: cl.Dialer, Topics: []string{topic},
		GroupBalancers:    []kafka.GroupBalancer{&exclusiveBalancer{member: h, since: time.Now()}},
		HeartbeatInterval: time.Second, SessionTimeout: memberSession, RebalanceTimeout: memberSession,
		JoinGroupBackoff: 500 * time.Millisecond, Timeout: 5 * time.Second, StartOffset: kafka.FirstOffset,
	})
	if err != nil {
		return nil, fmt.Errorf("join group %s: %w", h.group, err)
	}
	h.cg = cg
	ctx, h.stop = context.WithCancel(context.WithoutCancel(ctx))
	h.watcher.Go(func() { h.watch(ctx) })
	return h, nil
}

// watch follows the generations until the hold is released.
func (h *membership) watch(ctx context.Context) {
	for {
		gen, err := h.cg.Next(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, kafka.ErrGroupClosed):
			return
		case err != nil && broker.Permanent(err):
			h.set(nil, false, err)
			return
		case err != nil:
			continue // kafka-go waits, and joins again
		}
		if len(gen.Assignments[h.topic]) > 0 {
			h.set(gen, true, nil)
		} else {
			h.set(nil, true, nil)
		}
		gen.Start(func(over context.Context) {
			<-over.Done()
			h.lost(gen)
		})
	}
}

func (h *membership) set(gen *kafka.Generation, member bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gen, h.held, h.member, h.err = gen, gen != nil, member, err
	close(h.changed)
	h.changed = make(chan struct{})
}

// lost forgets a generation that is over, unless the next one was faster.
func (h *membership) lost(gen *kafka.Generation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gen == gen {
		h.gen = nil
	}
}

func (h *membership) hasHeld() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}

// get returns the generation in which this command holds the group, and waits
// for one.
func (h *membership) get(ctx context.Context) (*kafka.Generation, error) {
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	for {
		h.mu.Lock()
		gen, member, err, changed := h.gen, h.member, h.err, h.changed
		h.mu.Unlock()
		if err != nil {
			return nil, h.refused(err)
		}
		if gen != nil {
			return gen, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-patience.C:
			if member {
				return nil, fmt.Errorf("group %s: another command replays or drops letters of %s; try again when it has ended", h.group, h.topic)
			}
			return nil, fmt.Errorf("group %s could not be joined within %v", h.group, Patience)
		}
	}
}

func (h *membership) refused(err error) error {
	if errors.Is(err, kafka.InconsistentGroupProtocol) {
		return fmt.Errorf("group %s is in use by a consumer of %s, which decides itself what is settled: %w", h.group, h.topic, err)
	}
	return fmt.Errorf("join group %s: %w", h.group, err)
}

// release leaves the group, so that the next command needn't wait.
func (h *membership) release() {
	h.stop()
	_ = h.cg.Close() // always nil; what was under way has been awaited
	h.watcher.Wait()
}

// exclusiveBalancer gives all partitions to one member: the one that had them, else the
// one that has waited longest. The choice is about fairness alone: what a
// member may do hangs on its generation.
type exclusiveBalancer struct {
	member *membership
	since  time.Time
}

// ProtocolName differs from that of consumers, so that Kafka keeps the two apart.
func (*exclusiveBalancer) ProtocolName() string { return "dispatcher-letters" }

// UserData sorts like the members' right: 0 for who held, then the time.
func (b *exclusiveBalancer) UserData() ([]byte, error) {
	rank := byte(1)
	if b.member.hasHeld() {
		rank = 0
	}
	return binary.BigEndian.AppendUint64([]byte{rank}, uint64(b.since.UnixNano())), nil
}

// AssignGroups is asked on one of the members, for all of them.
func (*exclusiveBalancer) AssignGroups(members []kafka.GroupMember, partitions []kafka.Partition) kafka.GroupMemberAssignments {
	all := make(kafka.GroupMemberAssignments, len(members))
	if len(members) == 0 {
		return all
	}
	holder := slices.MinFunc(members, func(a, b kafka.GroupMember) int {
		return cmp.Or(bytes.Compare(a.UserData, b.UserData), cmp.Compare(a.ID, b.ID))
	})
	for _, m := range members {
		all[m.ID] = map[string][]int{}
	}
	for _, p := range partitions {
		all[holder.ID][p.Topic] = append(all[holder.ID][p.Topic], p.ID)
	}
	return all
}
