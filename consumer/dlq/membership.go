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

// membership is the right to settle the letters of one dead-letter topic. The command is a
// member of the group that stores what is settled, and has all partitions. Other commands wait
// as members without partitions.
//
// A membership makes it safe to read an offset and commit a new one: Kafka refuses the commit
// of an earlier generation, and the member that has the partitions in the next generation
// reads the offsets only after it has begun.
type membership struct {
	group, topic string
	cg           *kafka.ConsumerGroup
	watcher      sync.WaitGroup
	stop         context.CancelFunc

	mu      sync.Mutex
	gen     *kafka.Generation // in which this member has all partitions; nil: none
	held    bool              // it had them in the last generation
	member  bool              // it is a member; another one may have the partitions
	err     error             // a permanent error of the group
	changed chan struct{}     // closed and replaced by set
}

// memberSession is how long the group waits for a member that died.
const memberSession = 10 * time.Second

// joinAlone begins to join the group of a dead-letter topic. It does not wait for the join.
func joinAlone(ctx context.Context, o *Options, cl *broker.Client, topic string) (*membership, error) {
	m := &membership{group: o.Group + "." + topic, topic: topic, changed: make(chan struct{})}
	cg, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: m.group, Brokers: o.Brokers, Dialer: cl.Dialer, Topics: []string{topic},
		GroupBalancers:    []kafka.GroupBalancer{&exclusiveBalancer{member: m, since: time.Now()}},
		HeartbeatInterval: time.Second, SessionTimeout: memberSession, RebalanceTimeout: memberSession,
		JoinGroupBackoff: 500 * time.Millisecond, Timeout: 5 * time.Second, StartOffset: kafka.FirstOffset,
	})
	if err != nil {
		return nil, fmt.Errorf("join group %s: %w", m.group, err)
	}
	m.cg = cg
	ctx, m.stop = context.WithCancel(context.WithoutCancel(ctx))
	m.watcher.Go(func() { m.watch(ctx) })
	return m, nil
}

// watch follows the generations until the member leaves.
func (m *membership) watch(ctx context.Context) {
	for {
		gen, err := m.cg.Next(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, kafka.ErrGroupClosed):
			return
		case err != nil && broker.Permanent(err):
			m.set(nil, false, err)
			return
		case err != nil:
			continue // kafka-go waits and joins again
		}
		if len(gen.Assignments[m.topic]) > 0 {
			m.set(gen, true, nil)
		} else {
			m.set(nil, true, nil)
		}
		gen.Start(func(over context.Context) {
			<-over.Done()
			m.lost(gen)
		})
	}
}

func (m *membership) set(gen *kafka.Generation, member bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gen, m.held, m.member, m.err = gen, gen != nil, member, err
	close(m.changed)
	m.changed = make(chan struct{})
}

// lost forgets a generation that is over, unless the next one has replaced it.
func (m *membership) lost(gen *kafka.Generation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gen == gen {
		m.gen = nil
	}
}

func (m *membership) hasHeld() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// get waits for a generation in which this command has all partitions.
func (m *membership) get(ctx context.Context) (*kafka.Generation, error) {
	timeout := time.NewTimer(giveUpAfter)
	defer timeout.Stop()
	for {
		m.mu.Lock()
		gen, member, err, changed := m.gen, m.member, m.err, m.changed
		m.mu.Unlock()
		if err != nil {
			return nil, m.refused(err)
		}
		if gen != nil {
			return gen, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timeout.C:
			if member {
				return nil, fmt.Errorf("group %s: another command replays or drops letters of %s; try again when it has ended", m.group, m.topic)
			}
			return nil, fmt.Errorf("group %s could not be joined within %v", m.group, giveUpAfter)
		}
	}
}

// refused explains a permanent error of the group.
func (m *membership) refused(err error) error {
	if errors.Is(err, kafka.InconsistentGroupProtocol) {
		return fmt.Errorf("group %s is in use by a consumer of %s, which commits its own offsets there: %w", m.group, m.topic, err)
	}
	return fmt.Errorf("join group %s: %w", m.group, err)
}

// leave leaves the group, so that the next command needn't wait.
func (m *membership) leave() {
	m.stop()
	_ = m.cg.Close() // always nil
	m.watcher.Wait()
}

// exclusiveBalancer gives all partitions to one member: the one that had them, else the one
// that has waited longest. The choice matters for fairness only: the generation decides who
// may commit.
type exclusiveBalancer struct {
	member *membership
	since  time.Time
}

// ProtocolName differs from that of consumers, so that Kafka does not let both into a group.
func (*exclusiveBalancer) ProtocolName() string { return "dispatcher-dlq" }

// UserData sorts the members: first the one that had the partitions, then by waiting time.
func (b *exclusiveBalancer) UserData() ([]byte, error) {
	rank := byte(1)
	if b.member.hasHeld() {
		rank = 0
	}
	return binary.BigEndian.AppendUint64([]byte{rank}, uint64(b.since.UnixNano())), nil
}

// AssignGroups runs on one of the members, for all of them.
func (*exclusiveBalancer) AssignGroups(members []kafka.GroupMember, partitions []kafka.Partition) kafka.GroupMemberAssignments {
	all := make(kafka.GroupMemberAssignments, len(members))
	if len(members) == 0 {
		return all
	}
	holder := slices.MinFunc(members, func(a, b kafka.GroupMember) int {
		return cmp.Or(bytes.Compare(a.UserData, b.UserData), cmp.Compare(a.ID, b.ID))
	})
	for _, member := range members {
		all[member.ID] = map[string][]int{}
	}
	for _, p := range partitions {
		all[holder.ID][p.Topic] = append(all[holder.ID][p.Topic], p.ID)
	}
	return all
}
