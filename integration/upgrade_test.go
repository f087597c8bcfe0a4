package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dispatcher/internal/provider"
)

const (
	upgradeParts = 6
	upgradeEach  = 400 // with the one that is stuck
	upgradeJobs  = upgradeParts * upgradeEach
	oldNode      = 200 // the number by which the provider knows it
)

// old is a node of an older version: a plain member of the group that works its
// partitions in order. Its commits carry metadata of an older format in every
// other partition, and none in the rest.
type old struct {
	s     *scene
	cl    *kgo.Client
	stop  context.CancelFunc
	ended chan error
}

func (s *scene) startOld(t *testing.T) *old {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.kafka.Addr), kgo.ConsumerGroup("dispatcher."+s.topic), kgo.ConsumeTopics(s.topic),
		kgo.Balancers(kgo.RangeBalancer()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	o := &old{s: s, cl: cl, stop: stop, ended: make(chan error, 1)}
	go func() { o.ended <- o.run(ctx) }()
	t.Cleanup(func() { stop(); cl.Close() })
	return o
}

// run works what it polls and commits that before it lets the group move on.
func (o *old) run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := o.work(o.cl.PollRecords(ctx, 20))
		o.cl.AllowRebalance()
		if err != nil {
			return err
		}
	}
	return nil
}

// work calls each partition's jobs in order. At one that is put off it stops and polls it
// again later, so that the group need not wait for it.
func (o *old) work(polled kgo.Fetches) error {
	var (
		parts  sync.WaitGroup
		mu     sync.Mutex
		passed []*kgo.Record
		later  = map[int32]kgo.EpochOffset{}
		faults error
	)
	polled.EachPartition(func(part kgo.FetchTopicPartition) {
		parts.Go(func() {
			for i, r := range part.Records {
				done, err := o.call(r)
				if err == nil && done {
					continue
				}
				mu.Lock()
				defer mu.Unlock()
				passed, faults = append(passed, part.Records[:i]...), errors.Join(faults, err)
				later[part.Partition] = kgo.EpochOffset{Epoch: -1, Offset: r.Offset}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			passed = append(passed, part.Records...)
		})
	})
	parts.Wait()
	if len(later) > 0 {
		o.cl.SetOffsets(map[string]map[int32]kgo.EpochOffset{o.s.topic: later})
	}
	if len(passed) == 0 || faults != nil {
		return faults
	}
	return o.commit(passed)
}

func (o *old) commit(records []*kgo.Record) error {
	ctx := kgo.PreCommitFnContext(context.Background(), func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			for j := range req.Topics[i].Partitions {
				p := &req.Topics[i].Partitions[j]
				if p.Metadata = nil; p.Partition%2 == 0 {
					p.Metadata = new(fmt.Sprintf("v0;done=%d", p.Offset))
				}
			}
		}
		return nil
	})
	return o.cl.CommitRecords(ctx, records...)
}

// call brings one job to the provider, and returns whether it was taken.
func (o *old) call(r *kgo.Record) (done bool, err error) {
	key := ""
	for _, h := range r.Headers {
		if h.Key == "idempotency-key" {
			key = string(h.Value)
		}
	}
	status, err := o.s.judge.call(context.Background(), http.DefaultClient, key, r.Value, oldNode)
	return status == http.StatusOK, err
}

// leave ends the old node after what it has polled.
func (o *old) leave(t *testing.T) {
	t.Helper()
	o.stop()
	if err := <-o.ended; err != nil {
		t.Errorf("the old node: %v", err)
	}
	o.cl.CloseAllowingRebalance()
}

// upgrade: nodes of an older version share the group with ours, one way and back.
// No job is lost. Our nodes repeat nothing of theirs; they, which can't read our
// bitmaps, repeat what those say, and nothing else.
func (w *servers) upgrade(t *testing.T) {
	t.Parallel()
	s := w.scripted(t, 300, upgradeParts, 5*time.Millisecond, "sender.retry.attempts=1000", "sender.retry.backoff=200ms", "sender.retry.max_backoff=200ms")
	var records []*kgo.Record
	for p := range upgradeParts {
		records = append(records, s.at(int32(p), fmt.Sprint("plain-", p), 0, upgradeEach/2)...)
		records = append(records, s.at(int32(p), fmt.Sprint("refuse-", p), 0, 1)...)
		records = append(records, s.at(int32(p), fmt.Sprint("plain-", p), upgradeEach/2, upgradeEach-1)...)
	}
	s.putWhere(t, records...)

	first := s.startOld(t)
	s.calledBy(t, oldNode, 100)
	ours := s.start(t, 2)
	s.calledBy(t, ours[0].number, 100)
	s.calledBy(t, ours[1].number, 100)
	first.leave(t) // what it could not pass is left to ours
	s.allPlain(t)
	upgraded := repeated(plain(s.judge.arrivals(t)))
	behind := s.uncommitted(t)

	second := s.startOld(t)
	stop(t, ours...)
	s.judge.post(t, "/release", "")
	s.settled(t, time.Minute)
	second.leave(t)
	s.judgeUpgrade(t, upgraded, behind)
	if said := ours[0].said(t) + ours[1].said(t); !strings.Contains(said, "foreign metadata is ignored") {
		t.Error("no node says that it ignores foreign metadata")
	}
	w.newer(t)
}

// judgeUpgrade gets the jobs that were repeated on the way to our nodes, and
// those behind the committed offsets on the way back.
func (s *scene) judgeUpgrade(t *testing.T, upgraded []string, behind map[string]bool) {
	t.Helper()
	all := plain(s.judge.arrivals(t))
	downgraded := slices.DeleteFunc(repeated(all), func(key string) bool { return slices.Contains(upgraded, key) })
	for _, key := range downgraded {
		if !behind[key] {
			t.Errorf("job %s was repeated, and was committed before the old node took over", key)
		}
	}
	if len(upgraded) > 0 {
		t.Errorf("got %d jobs repeated while our nodes took over, want none: %v", len(upgraded), upgraded)
	}
	if r := s.judge.report(t, s.cap); r.Distinct != upgradeJobs || r.Accepted != upgradeJobs {
		t.Errorf("got %d jobs called and %d accepted, want %d", r.Distinct, r.Accepted, upgradeJobs)
	}
	t.Logf("%d jobs, none lost; from an older format to ours: %d repeats; back: %d repeats, of %d jobs that our bitmap alone knew to be done",
		upgradeJobs, len(upgraded), len(downgraded), len(behind))
}

func plain(all []provider.Arrival) []provider.Arrival {
	return slices.DeleteFunc(all, func(a provider.Arrival) bool { return !strings.HasPrefix(a.Key, "plain") })
}

// calledBy waits until a node has made so many calls.
func (s *scene) calledBy(t *testing.T, node, calls int) {
	t.Helper()
	got := 0
	eventually(t, time.Minute, func() bool {
		got = 0
		for _, a := range s.judge.arrivals(t) {
			if a.Node == node {
				got++
			}
		}
		return got >= calls
	}, func() string { return fmt.Sprintf("node %d made %d calls, want %d", node, got, calls) })
}

// allPlain waits until every job that is not stuck has been called, and that is
// committed.
func (s *scene) allPlain(t *testing.T) {
	t.Helper()
	got := 0
	eventually(t, time.Minute, func() bool {
		got = len(statuses(plain(s.judge.arrivals(t))))
		return got == upgradeJobs-upgradeParts
	}, func() string { return fmt.Sprintf("%d jobs were called", got) })
	pass(time.Second)
}

// uncommitted are the jobs that were called and lie behind the committed offsets.
func (s *scene) uncommitted(t *testing.T) map[string]bool {
	t.Helper()
	behind := map[string]bool{}
	for p, offset := range s.committed(t) {
		for i := max(offset, upgradeEach/2); p < upgradeParts && i < upgradeEach-1; i++ {
			behind[fmt.Sprintf("plain-%d-%d", p, i)] = true
		}
	}
	return behind
}

// newer: a bitmap of a format to come is read as none, and that is logged.
func (w *servers) newer(t *testing.T) {
	t.Helper()
	const jobs, done = 100, 40
	s := w.scene(t, 1000, 1, 0)
	s.putWhere(t, s.at(0, "job", 0, jobs)...)
	s.commitWith(t, done, "v2;AAECAwQFBgcICQ==")
	n := s.startOne(t)
	s.settled(t, time.Minute)
	stop(t, n)
	n.tells(t, "foreign metadata is ignored", fmt.Sprintf("committed=%d", done))
	once(t, s.judge.report(t, s.cap), jobs-done)
	t.Logf("a newer format beside offset %d of %d: read as none, logged, %d jobs called once", done, jobs, jobs-done)
}
