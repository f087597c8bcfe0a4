package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/health"
	"dispatcher/consumer/internal/offsets"
	"dispatcher/consumer/internal/schedule"

	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/wait"

	"github.com/segmentio/kafka-go"
)

// commitPatience is how many intervals commits may fail before the log warns: a change of
// coordinators is over by then.
const commitPatience = 5

// lastCommitTime is the time for the last commit, between the end of the drain and the end of
// the session.
func (o *Options) lastCommitTime() time.Duration {
	return max(o.Session-o.Heartbeat-o.Drain, 500*time.Millisecond)
}

// detail is how much a commit says beside its offsets. A broker that finds that too long
// gets less.
type detail int

const (
	withAttempts detail = iota
	withBitmap
	withoutMetadata
)

func (d detail) metadata(topic topicname.ID, c *schedule.CommitPoint) string {
	m := offsets.Metadata{Topic: topic, Bitmap: c.Bitmap}
	switch d {
	case withAttempts:
		m.Attempts = c.Attempts
	case withBitmap:
	case withoutMetadata:
		return ""
	}
	return m.Encode()
}

// commitLoop commits new points at the interval, until done or the deadline.
func (a *assignment) commitLoop(done <-chan struct{}, deadline <-chan time.Time) {
	t := time.NewTicker(a.g.o.CommitInterval)
	defer t.Stop()
	for {
		if errors.Is(a.commit(a.Uncommitted(), a.drainLeft(broker.CallTimeout)), errRemoved) {
			a.End(errRemoved)
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

// commitLast tries the last commit as often as the session allows, counted from the end of
// the assignment. The next owner sends again the jobs that it can't commit.
//
// While no broker answers it goes on until the consumer stops. The coordinator is away, so
// the session does not run out and no member can take over; when it is back it still knows
// this member. To join again meanwhile would fail, and kafka-go would forget the member id;
// the group would then wait a whole session for the old one.
func (a *assignment) commitLast(points []schedule.CommitPoint, stopped <-chan struct{}) {
	if <-a.checked; a.recreated.Load() {
		a.resetOffsets(stopped)
		return
	}
	if errors.Is(context.Cause(a.Context()), errRemoved) {
		return
	}
	o := &a.g.o
	room := o.lastCommitTime()
	until := time.Now().Add(room)
	if latest := a.Ended().Add(o.Drain + room); latest.Before(until) {
		until = latest
	}
	var err error
	for n := 0; time.Now().Before(until); n++ {
		if err = a.lastRequest(points, time.Until(until), ended(stopped)); err == nil {
			return
		}
		if errors.Is(err, errRemoved) {
			break
		}
		if unanswered(err) && !ended(stopped) {
			if until = time.Now().Add(room); n == 0 {
				a.g.o.Log.Warn("no broker answered the last commit, trying until one does", "error", err)
			}
		}
		points = slices.DeleteFunc(points, func(c schedule.CommitPoint) bool { return !a.Pending(&c) })
		wait.For(context.Background(), min(wait.Backoff(n, 20*time.Millisecond, 200*time.Millisecond), time.Until(until)))
	}
	if len(points) > 0 {
		a.g.o.Log.Warn("last commit failed, jobs settled since the one before will be sent again", "error", err)
	}
}

// lastRequest commits points. Without points it sends a heartbeat, to find out whether the
// coordinator answers; a member that leaves need not know.
func (a *assignment) lastRequest(points []schedule.CommitPoint, timeout time.Duration, leaves bool) error {
	if len(points) > 0 || leaves {
		return a.commit(points, timeout)
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(timeout, broker.CallTimeout))
	defer cancel()
	res, err := a.g.o.Client.Heartbeat(ctx, &kafka.HeartbeatRequest{
		GroupID: a.g.o.ID, GenerationID: a.gen.ID, MemberID: a.gen.MemberID,
	})
	if err == nil {
		err = res.Error
	}
	if unanswered(err) {
		return err
	}
	return nil // after any answer the member joins again
}

// unanswered tells whether no coordinator has answered.
func unanswered(err error) bool {
	if err == nil {
		return false
	}
	code, answered := errors.AsType[kafka.Error](err)
	if !answered {
		return true
	}
	return slices.Contains([]kafka.Error{
		kafka.GroupCoordinatorNotAvailable, kafka.GroupLoadInProgress, kafka.NotCoordinatorForGroup, kafka.BrokerNotAvailable,
	}, code)
}

func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// commit sends points to the group's coordinator, and notes those that it took. Its error is
// errRemoved, or the first one that is worth another try.
func (a *assignment) commit(points []schedule.CommitPoint, timeout time.Duration) error {
	if len(points) == 0 || a.recreated.Load() {
		return nil
	}
	// Without the deliveries' context: the last commits come after its end.
	ctx, cancel := context.WithTimeout(context.Background(), min(timeout, broker.CallTimeout))
	defer cancel()
	err := a.sendAll(ctx, points)
	from := health.Source{Doing: health.Commit, Topic: a.g.topic(), Partition: health.NoPartition}
	if err == nil {
		a.g.fresh.Store(0)
		a.g.o.Health.Works(from)
		return nil
	}
	a.g.o.Log.Debug("commit failed", "error", err)
	if a.g.o.Health.Fails(from, err, commitPatience*a.g.o.CommitInterval) {
		a.g.o.Log.Warn("commits keep failing, jobs settled meanwhile would be sent again after a crash; trying again", "error", err)
	}
	return err
}

// commitPartitions is how many partitions one request commits at most: the
// coordinator writes a request as one batch of at most 1 MiB, and metadata takes up
// to 4 KiB.
const commitPartitions = 200

// sendAll commits points, in as many requests as it takes. It ends with the first
// that fails.
func (a *assignment) sendAll(ctx context.Context, points []schedule.CommitPoint) error {
	for some := range slices.Chunk(points, commitPartitions) {
		if err := a.send(ctx, some, withAttempts); err != nil {
			return err
		}
	}
	return nil
}

// send makes one request of a commit.
func (a *assignment) send(ctx context.Context, points []schedule.CommitPoint, d detail) error {
	o := &a.g.o
	o.Metrics.commits.WithLabelValues(a.g.topic()).Inc()
	res, err := o.Client.OffsetCommit(ctx, a.commitRequest(points, d))
	if err == nil {
		err = a.noteAnswers(ctx, points, d, res.Topics[a.g.topic()])
	}
	if err != nil {
		o.Metrics.commitErrors.WithLabelValues(a.g.topic()).Inc()
	}
	return err
}

func (a *assignment) commitRequest(points []schedule.CommitPoint, d detail) *kafka.OffsetCommitRequest {
	topic := a.topicID()
	commits := make([]kafka.OffsetCommit, len(points))
	for i := range points {
		commits[i] = kafka.OffsetCommit{Partition: points[i].ID, Offset: points[i].Low, Metadata: d.metadata(topic, &points[i])}
	}
	return &kafka.OffsetCommitRequest{
		GroupID: a.g.o.ID, GenerationID: int(a.gen.ID), MemberID: a.gen.MemberID,
		Topics: map[string][]kafka.OffsetCommit{a.g.topic(): commits},
	}
}

// noteAnswers notes the points that were taken. Three errors mean that the group has moved
// on. After any other the next interval tries again, with the points of that time.
func (a *assignment) noteAnswers(ctx context.Context, points []schedule.CommitPoint, d detail, answers []kafka.OffsetCommitPartition) error {
	byID := make(map[int]error, len(answers))
	for _, r := range answers {
		byID[r.Partition] = r.Error
	}
	var taken, tooLong []schedule.CommitPoint
	var first error
	for _, c := range points {
		err, answered := byID[c.ID]
		switch {
		case !answered:
			err = errors.New("the partition is not in the answer")
		case err == nil:
			taken = append(taken, c)
			continue
		case errors.Is(err, kafka.IllegalGeneration), errors.Is(err, kafka.UnknownMemberId), errors.Is(err, kafka.FencedInstanceID):
			return fmt.Errorf("%w: %w", errRemoved, err)
		case errors.Is(err, kafka.OffsetMetadataTooLarge) && d != withoutMetadata:
			tooLong = append(tooLong, c)
			continue
		}
		if first == nil {
			first = fmt.Errorf("partition %d: %w", c.ID, err)
		}
	}
	a.Committed(taken)
	if len(tooLong) > 0 && first == nil {
		return a.send(ctx, tooLong, d+1)
	}
	return first
}
