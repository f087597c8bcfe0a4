package integration

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// at are records for a partition, called by the name and their number.
func (s *scene) at(partition int32, name string, from, to int) (records []*kgo.Record) {
	for i := from; i < to; i++ {
		r := s.named(fmt.Sprint("k", i), fmt.Sprint(name, "-", i))
		r.Partition = partition
		records = append(records, r)
	}
	return records
}

// topicGrows: jobs in partitions that are added while nodes run are sent.
func (w *servers) topicGrows(t *testing.T) {
	t.Helper()
	const each = 100
	s := w.scene(t, 2000, 3, 0)
	s.start(t, 2)
	s.putWhere(t, slices.Concat(s.at(0, "p0", 0, each), s.at(1, "p1", 0, each), s.at(2, "p2", 0, each))...)
	s.settled(t, time.Minute)
	r, err := s.client(t).CreatePartitions(t.Context(), &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: s.topic, Count: 6}},
	})
	if err == nil {
		err = r.Errors[s.topic]
	}
	if err != nil {
		t.Fatal(err)
	}
	grown := time.Now()
	eventually(t, time.Minute, func() bool {
		ends, err := endOffsets(t.Context(), s.client(t), s.topic)
		return err == nil && len(ends) == 6
	}, func() string { return "the new partitions are not known" })
	s.putWhere(t, slices.Concat(s.at(3, "p3", 0, each), s.at(4, "p4", 0, each), s.at(5, "p5", 0, each))...)
	s.judge.count(t, 6*each, 90*time.Second)
	took := time.Since(grown)
	s.settled(t, time.Minute)
	s.lagGone(t)
	stop(t, s.nodes...)
	once(t, s.judge.report(t, s.cap), 6*each)
	t.Logf("the jobs in three new partitions were sent %v after these were made", took.Round(100*time.Millisecond))
}

// topicRecreated: a topic is deleted and made again while no node runs. Its jobs
// are all sent, whatever the group had committed in the old one, and where that
// does not fit the node says so.
func (w *servers) topicRecreated(t *testing.T) {
	t.Helper()
	const before, after = 300, 100
	s := w.scene(t, 2000, 1, 0)
	s.putWhere(t, s.at(0, "old", 0, before)...)
	s.started(t, before)
	s.recreate(t)
	s.putWhere(t, s.at(0, "new", 0, before+after)...) // more than there were
	left := s.committed(t)[0]
	s.started(t, before+after)
	s.recreate(t)
	s.putWhere(t, s.at(0, "third", 0, after)...)
	s.commit(t, before) // as a tool might, or a cluster that keeps offsets
	n := s.started(t, after)
	once(t, s.judge.report(t, s.cap), 2*before+2*after)
	n.tells(t, "committed offset and log don't fit", "begin with the first record", fmt.Sprintf("committed=%d", before))
	t.Logf("the new topic's jobs are all sent, each once; Kafka had kept offset %d of the old one (-1: none)", left)
}

// started runs a node until everything is settled, and expects so many jobs.
func (s *scene) started(t *testing.T, jobs int) *node {
	t.Helper()
	n := s.startOne(t)
	var records, committed int64
	eventually(t, time.Minute, func() bool {
		records, committed = s.backlog(t)
		return records == int64(jobs) && committed == records
	}, func() string { return fmt.Sprintf("%d of %d records are settled, want %d", committed, records, jobs) })
	s.lagGone(t)
	stop(t, n)
	return n
}

func (s *scene) recreate(t *testing.T) {
	t.Helper()
	s.deleteTopic(t)
	s.makeTopic(t, 1)
}

// commit sets the group's offset in partition 0 while it has no member.
func (s *scene) commit(t *testing.T, offset int64) { t.Helper(); s.commitWith(t, offset, "") }

// commitWith is commit with metadata. On a new cluster the group may have no
// coordinator yet.
func (s *scene) commitWith(t *testing.T, offset int64, metadata string) {
	t.Helper()
	var fault error
	eventually(t, time.Minute, func() bool {
		r, err := s.client(t).OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
			GroupID: "dispatcher." + s.topic, GenerationID: -1,
			Topics: map[string][]kafka.OffsetCommit{s.topic: {{Partition: 0, Offset: offset, Metadata: metadata}}},
		})
		if fault = err; err == nil {
			fault = r.Topics[s.topic][0].Error
		}
		return fault == nil
	}, func() string { return fmt.Sprintf("commit offset %d: %v", offset, fault) })
}

// recordsDeleted: retention takes records that were not worked, while a node
// runs and while none does. What is left is sent, once, and the loss is logged.
func (w *servers) recordsDeleted(t *testing.T) {
	t.Helper()
	const jobs, gone, more, goneLater = 12_000, 11_000, 1000, 12_700
	s := w.scene(t, 5000, 1, 0)
	s.putWhere(t, s.at(0, "job", 0, 1)...)
	n := s.startOne(t)
	s.settled(t, time.Minute)
	s.mustCommand(t, "limit", "pause", "provider", "--wait")
	s.putWhere(t, large(s.at(0, "job", 1, jobs))...)
	eventually(t, time.Minute, func() bool { return n.metric(t, "dispatcher_consumer_ready_jobs") > 0 },
		func() string { return "nothing is fetched" })
	s.deleteRecords(t, gone)
	s.mustCommand(t, "limit", "resume", "provider")
	s.settled(t, time.Minute)
	s.lagGone(t)
	stop(t, n)
	running := s.judge.report(t, s.cap).Sent
	n.tells(t, "records were deleted before they were worked", fmt.Sprintf("to=%d", gone))
	s.putWhere(t, s.at(0, "job", jobs, jobs+more)...)
	s.deleteRecords(t, goneLater)
	n = s.startOne(t)
	s.settled(t, time.Minute)
	s.lagGone(t)
	stop(t, n)
	n.tells(t, "records were deleted before they were worked", fmt.Sprintf("committed=%d", jobs), fmt.Sprintf("log_start=%d", goneLater))
	got := statuses(s.judge.arrivals(t))
	for i := range jobs + more {
		calls := len(got[fmt.Sprint("job-", i)])
		if there := i >= goneLater || i >= gone && i < jobs; there && calls != 1 || calls > 1 {
			t.Errorf("job %d was called %d times", i, calls)
		}
	}
	t.Logf("records up to %d of %d were deleted while a node ran: %d were sent; then up to %d of %d: %d more", gone, jobs, running, goneLater, jobs+more, len(got)-running)
}

// large makes records so large that a node can't have all of them in memory.
func large(records []*kgo.Record) []*kgo.Record {
	for _, r := range records {
		r.Value = bytes.Repeat([]byte("x"), 1000)
	}
	return records
}

// deleteRecords moves the beginning of partition 0's log.
func (s *scene) deleteRecords(t *testing.T, to int64) {
	t.Helper()
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Partition, part.Offset = 0, to
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic, topic.Partitions = s.topic, append(topic.Partitions, part)
	req := kmsg.NewDeleteRecordsRequest()
	req.Topics, req.TimeoutMillis = append(req.Topics, topic), 10_000
	res, err := req.RequestWith(t.Context(), s.producer(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Topics[0].Partitions[0]; got.ErrorCode != 0 || got.LowWatermark != to {
		t.Fatalf("delete records up to %d: got error %d and beginning %d", to, got.ErrorCode, got.LowWatermark)
	}
}

// tells expects what a node must not keep to itself.
func (n *node) tells(t *testing.T, wants ...string) {
	t.Helper()
	said := n.said(t)
	for _, want := range wants {
		if !strings.Contains(said, want) {
			t.Errorf("node %d does not say %q", n.number, want)
		}
	}
}
