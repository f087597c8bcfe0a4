package integration

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"dispatcher/internal/provider"
)

const (
	stuckParts = 12
	stuckEach  = 250 // with the one that is stuck
	stuckRest  = stuckParts * (stuckEach - 1)
)

// stuck: the first job of each partition is refused or gets no answer, for as
// long as it takes. All others are sent, and a node that is killed repeats of
// them at most those on the wire and those of the last commit interval.
func (w *servers) stuck(t *testing.T) {
	s := w.scripted(t, faultCap, stuckParts, faultLatency, "kafka.session=6s", "kafka.drain=4500ms", "sender.http.timeout=3s",
		"sender.retry.attempts=1000", "sender.retry.max_backoff=1s")
	s.writeStuck(t)
	first := s.startOne(t)
	s.judge.count(t, stuckRest/2, time.Minute)
	s.kill(t, first)
	second := s.startOne(t)
	s.restAccepted(t)
	pass(2 * time.Second) // much more than a commit interval
	s.kill(t, second)
	third := s.startOne(t)
	s.stuckCalled(t, third)
	s.judge.post(t, "/release", "")
	s.settled(t, time.Minute)
	s.lagGone(t)
	stop(t, third)
	s.judgeStuck(t, first, second, third)
}

func (s *scene) writeStuck(t *testing.T) {
	t.Helper()
	var records []*kgo.Record
	for i := range stuckEach {
		for p := range stuckParts {
			id := fmt.Sprintf("plain-%d-%d", p, i)
			if i == 0 {
				id = fmt.Sprintf("%s-%d", []string{"refuse", "hang"}[p%2], p)
			}
			r := s.named(id, id) // a key of its own
			r.Partition = int32(p)
			records = append(records, r)
		}
	}
	s.putWhere(t, records...)
}

func (s *scene) kill(t *testing.T, n *node) {
	t.Helper()
	n.signal(t, syscall.SIGKILL)
	_ = n.wait(t, 10*time.Second)
}

// restAccepted waits until all jobs that are not stuck have been sent, while
// those that are hold every committed offset at the beginning.
func (s *scene) restAccepted(t *testing.T) {
	t.Helper()
	got := 0
	eventually(t, time.Minute, func() bool {
		got = s.judge.report(t, s.cap).Accepted
		return got >= stuckRest
	}, func() string { return fmt.Sprintf("%d jobs are accepted, want %d", got, stuckRest) })
	for p, offset := range s.committed(t) {
		if offset > 0 {
			t.Errorf("partition %d: got offset %d committed beyond a job that is stuck", p, offset)
		}
	}
}

// stuckCalled waits until a node has called all jobs that are stuck, and so has
// read every partition.
func (s *scene) stuckCalled(t *testing.T, n *node) {
	t.Helper()
	called := map[string]bool{}
	eventually(t, time.Minute, func() bool {
		for _, a := range s.judge.arrivals(t) {
			if a.Node == n.number && !strings.HasPrefix(a.Key, "plain") {
				called[a.Key] = true
			}
		}
		return len(called) == stuckParts
	}, func() string {
		return fmt.Sprintf("%d of %d jobs that are stuck were called again", len(called), stuckParts)
	})
}

func (s *scene) judgeStuck(t *testing.T, first, second, third *node) {
	t.Helper()
	r := s.judge.report(t, s.cap)
	kept(t, r)
	if want := stuckRest + stuckParts; r.Distinct != want || r.Accepted != want {
		t.Errorf("got %d jobs sent and %d accepted, want %d", r.Distinct, r.Accepted, want)
	}
	plain := slices.DeleteFunc(s.judge.arrivals(t), func(a provider.Arrival) bool { return !strings.HasPrefix(a.Key, "plain") })
	repeatsAreFresh(t, r, plain, first)
	late := slices.DeleteFunc(plain, func(a provider.Arrival) bool { return a.Node != third.number })
	if len(late) > 0 {
		t.Errorf("node %d called %d jobs that node %d had settled long before it was killed", third.number, len(late), second.number)
	}
	t.Logf("%d jobs behind %d that were stuck: %d of them called again after the second kill", stuckRest, stuckParts, len(late))
}
