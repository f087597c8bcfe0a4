package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
)

// commitPoint is what one partition has to commit.
type commitPoint struct {
	part *partition
	snapshot
	plain bool // without the marks, which the broker found too long
}

// dirty lists what Kafka doesn't have yet. The hub's lock is held.
func (a *assignment) dirty() []commitPoint {
	var points []commitPoint
	for _, p := range a.parts {
		if p.ledger.rev != p.committedRev {
			points = append(points, commitPoint{part: p, snapshot: p.ledger.snapshot()})
		}
	}
	return points
}

// commitLoop commits what has changed, at the interval, until done or the
// deadline. Its first commit is at once: that is the one at the assignment.
func (a *assignment) commitLoop(done <-chan struct{}, deadline <-chan time.Time) {
	t := time.NewTicker(a.g.c.opts.CommitInterval)
	defer t.Stop()
	for {
		if errors.Is(a.commit(a.g.c.hub.dirty(a), callTimeout), errFenced) {
			a.cancel(errFenced)
			return
		}
		select {
		case <-t.C:
		case <-done:
			return
		case <-deadline:
			return
		}
	}
}

// commitLast tries the last commit as often as the session allows. What it
// can't bring home will be sent again by the next owner.
func (a *assignment) commitLast(points []commitPoint) {
	if len(points) == 0 || errors.Is(context.Cause(a.ctx), errFenced) {
		return
	}
	o := &a.g.c.opts
	room := max(o.Session-o.Heartbeat-o.Drain, lastCommit)
	until := time.Now().Add(room)
	var err error
	for n := 0; time.Now().Before(until); n++ {
		if err = a.commit(points, time.Until(until)); err == nil {
			return
		}
		if errors.Is(err, errFenced) {
			break
		}
		points = a.g.c.hub.stillDirty(points)
		pause(context.Background(), min(backoff(n, 20*time.Millisecond, 200*time.Millisecond), time.Until(until)))
	}
	a.g.log().Warn("the last commit failed, jobs settled since the one before will be sent again", "error", err)
}

// commit brings points to the group's coordinator. It notes those that were
// taken. Its error is errFenced, or the first one that is worth another try.
func (a *assignment) commit(points []commitPoint, timeout time.Duration) error {
	if len(points) == 0 {
		return nil
	}
	// Not the deliveries' context: the last commits come after its end.
	ctx, cancel := context.WithTimeout(context.Background(), min(timeout, callTimeout))
	defer cancel()
	c := a.g.c
	c.metrics.commits.WithLabelValues(a.g.topic).Inc()
	res, err := c.client.OffsetCommit(ctx, a.commitRequest(points))
	if err == nil {
		err = a.judge(points, res.Topics[a.g.topic])
	}
	if err != nil {
		c.metrics.commitErrors.WithLabelValues(a.g.topic).Inc()
		c.state.failed(fmt.Errorf("commit: %w", err))
		a.g.log().Debug("commit failed", "error", err)
	}
	return err
}

func (a *assignment) commitRequest(points []commitPoint) *kafka.OffsetCommitRequest {
	commits := make([]kafka.OffsetCommit, len(points))
	for i := range points {
		commits[i] = kafka.OffsetCommit{Partition: points[i].part.id, Offset: points[i].base}
		if !points[i].plain {
			commits[i].Metadata = points[i].marks.encode()
		}
	}
	return &kafka.OffsetCommitRequest{
		GroupID: a.g.id, GenerationID: int(a.gen.ID), MemberID: a.gen.MemberID,
		Topics: map[string][]kafka.OffsetCommit{a.g.topic: commits},
	}
}

// judge sorts the answers. Only three of them mean that the group has moved
// on; all others are tried again at the next interval, with what is true then.
func (a *assignment) judge(points []commitPoint, answers []kafka.OffsetCommitPartition) error {
	byID := make(map[int]error, len(answers))
	for _, r := range answers {
		byID[r.Partition] = r.Error
	}
	var taken, tooLong []commitPoint
	var first error
	for _, c := range points {
		err, answered := byID[c.part.id]
		switch {
		case !answered:
			err = errors.New("the partition is not in the answer")
		case err == nil:
			taken = append(taken, c)
			continue
		case errors.Is(err, kafka.IllegalGeneration), errors.Is(err, kafka.UnknownMemberId), errors.Is(err, kafka.FencedInstanceID):
			return fmt.Errorf("%w: %w", errFenced, err)
		case errors.Is(err, kafka.OffsetMetadataTooLarge) && !c.plain:
			c.plain = true
			tooLong = append(tooLong, c)
			continue
		}
		if first == nil {
			first = fmt.Errorf("partition %d: %w", c.part.id, err)
		}
	}
	a.g.c.hub.clean(taken)
	if len(tooLong) > 0 && first == nil {
		return a.commit(tooLong, callTimeout)
	}
	return first
}
