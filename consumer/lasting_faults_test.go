package consumer_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/consumer"
	"dispatcher/job"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// book counts log lines by their message.
type book struct {
	slog.Handler
	mu    sync.Mutex
	lines map[string]int
}

func newBook() *book { return &book{Handler: slog.DiscardHandler, lines: map[string]int{}} }

func (b *book) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (b *book) WithAttrs([]slog.Attr) slog.Handler           { return b }

func (b *book) Handle(_ context.Context, r slog.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines[r.Message]++
	return nil
}

func (b *book) count(message string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines[message]
}

// A fault that lasts is told again each minute, and makes the node unready
// after ten seconds, until it works again.
func TestLastingFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key  kmsg.Key
		line string
	}{
		"fetch":  {kmsg.Fetch, "could not fetch, trying again"},
		"commit": {kmsg.OffsetCommit, "commits keep failing, jobs settled meanwhile would be sent again after a crash; trying again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, 1, func(w *fleet) {
				log := newBook()
				o := w.options()
				o.Logger = slog.New(log)
				n := w.start(o, settled)
				w.waitFor("jobs", 0, 0)
				fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{c.key}, Topic: "jobs", Err: kerr.NotCoordinator, Count: -1})
				w.produce("jobs", numbered(0, 5)...)
				w.until("it fails", func() bool { return fault.Hits() > 0 })
				if s := n.c.Status(); s.Ready() != nil || s.Faulty.IsZero() || s.Fault == nil {
					t.Errorf("at first: got %v and status %+v, want ready with a fault", s.Ready(), s)
				}
				time.Sleep(11 * time.Second)
				if s := n.c.Status(); s.Ready() == nil || !s.Joined {
					t.Errorf("after 11s: got %v and status %+v, want a reason and joined", s.Ready(), s)
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if got := log.count(c.line); got != 3 {
					t.Errorf("got %d log lines, want one at first and one a minute", got)
				}
				fault.Remove()
				w.waitFor("jobs", 0, 5)
				if s := n.c.Status(); s.Ready() != nil || !s.Faulty.IsZero() {
					t.Errorf("at the end: got %v and status %+v", s.Ready(), s)
				}
				w.ok(n.end())
				if got, also := log.count("partitions assigned"), log.count("partitions drained"); got != 1 || also != 1 {
					t.Errorf("got %d lines of the assignment and %d of its end, want one each", got, also)
				}
			})
		})
	}
}

// Before the first join, readiness says why.
func TestNotReadyBeforeTheJoin(t *testing.T) {
	t.Parallel()
	if err := (consumer.Status{}).Ready(); err == nil {
		t.Error("got ready, want not joined yet")
	}
}

// A partition without a leader holds up no other one, and begins when it has one.
func TestPartitionWithoutALeader(t *testing.T) {
	t.Parallel()
	bubble(t, 2, func(w *fleet) {
		fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "jobs", Partitions: []int32{1}, Err: kerr.LeaderNotAvailable, Count: -1})
		w.produce("jobs", job.Record{Key: []byte(keysOf(0, 2, 1)[0]), Value: []byte("led")}, job.Record{Key: []byte(keysOf(1, 2, 1)[0]), Value: []byte("leaderless")})
		n := w.start(w.options(), nil)
		held := n.holding(1)
		time.Sleep(11 * time.Second)
		if s := n.c.Status(); string(held[0].Job.Value) != "led" || !s.Joined || s.Ready() == nil || len(s.Partitions) != 1 {
			t.Errorf("got %s in hand, readiness %v and status %+v", held[0].Job.Value, s.Ready(), s)
		}
		held[0].Done(consumer.Outcome{})
		w.waitFor("jobs", 0, 1)
		fault.Remove()
		late := n.holding(1)
		if held[0].Context().Err() != nil || n.c.Status().Ready() != nil {
			t.Errorf("got context error %v and readiness %v, want none", held[0].Context().Err(), n.c.Status().Ready())
		}
		late[0].Done(consumer.Outcome{})
		w.ok(n.end())
		if got, _ := w.committed("jobs", 1); got != 1 {
			t.Errorf("got offset %d committed of the late one, want 1", got)
		}
	})
}

// start_at last is for a new group. What a partition that was added got before
// anyone noticed is worked.
func TestStartLastInAnAddedPartition(t *testing.T) {
	t.Parallel()
	bubble(t, 2, func(w *fleet) {
		w.commit("jobs", 0, 0, "")
		w.produce("jobs", job.Record{Key: []byte(keysOf(1, 2, 1)[0]), Value: []byte("early")})
		o := w.options()
		o.StartAt = consumer.StartLast
		n := w.start(o, settled)
		w.waitFor("jobs", 1, 1)
		w.ok(n.end())
		if got := n.values(); len(got) != 1 {
			t.Errorf("got %v handed out, want the early one", got)
		}
	})
}

// In the first generation of a group, one member's commit does not tell the
// others to begin with the oldest record.
func TestStartLastWithTwoMembers(t *testing.T) {
	t.Parallel()
	bubble(t, 2, func(w *fleet) {
		w.produce("jobs", job.Record{Key: []byte(keysOf(0, 2, 1)[0])}, job.Record{Key: []byte(keysOf(1, 2, 1)[0])})
		o := w.options()
		o.StartAt = consumer.StartLast
		a, b := w.start(o, settled), w.start(o, settled)
		w.waitFor("jobs", 0, 1)
		w.waitFor("jobs", 1, 1)
		w.ok(a.end())
		w.ok(b.end())
		if got, also := a.values(), b.values(); len(got)+len(also) != 0 {
			t.Errorf("got %d and %d old jobs handed out, want none", len(got), len(also))
		}
	})
}

// The drain is counted from its beginning, whatever commit hangs then: a stop
// ends before the session does.
func TestDrainIsCountedFromTheStop(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 2)...)
		o := w.options()
		o.Session, o.Drain = 6*time.Second, 2*time.Second
		var broken, lost atomic.Bool
		o.Dial = w.lossy(func(key int16, _ int) bool {
			if key != kmsg.OffsetCommit.Int16() || !broken.Load() {
				return false
			}
			lost.Store(true)
			return true
		})
		n := w.start(o, nil)
		held := n.holding(2)
		w.waitFor("jobs", 0, 0)
		broken.Store(true)
		held[0].Done(consumer.Outcome{})
		w.until("a commit hangs", lost.Load)
		began := time.Now()
		w.ok(n.end())
		if took := time.Since(began); took > 5100*time.Millisecond {
			t.Errorf("the stop took %v, want at most session − heartbeat = 5s, and a little", took)
		}
	})
}
