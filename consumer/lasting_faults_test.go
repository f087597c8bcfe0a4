package consumer_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
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

// lineCounter counts log lines by their message.
type lineCounter struct {
	slog.Handler
	mu    sync.Mutex
	lines map[string]int
}

func newLineCounter() *lineCounter {
	return &lineCounter{Handler: slog.DiscardHandler, lines: map[string]int{}}
}

func (c *lineCounter) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (c *lineCounter) WithAttrs([]slog.Attr) slog.Handler           { return c }

func (c *lineCounter) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines[r.Message]++
	return nil
}

func (c *lineCounter) count(message string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines[message]
}

// A lasting fault is logged once a minute. After ten seconds it makes the node unready, until
// the fault ends.
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
				log := newLineCounter()
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
					t.Errorf("got %d log lines, want 3: one at first and one a minute", got)
				}
				fault.Remove()
				w.waitFor("jobs", 0, 5)
				if s := n.c.Status(); s.Ready() != nil || !s.Faulty.IsZero() {
					t.Errorf("at the end: got %v and status %+v, want ready without a fault", s.Ready(), s)
				}
				w.ok(n.end())
				if got, also := log.count("partitions assigned"), log.count("partitions drained"); got != 1 || also != 1 {
					t.Errorf("got %d lines of the assignment and %d of its end, want one each", got, also)
				}
			})
		})
	}
}

// A fault that is over is no reason why a node is not joined during a later rebalance.
func TestAFaultThatIsOverIsNoReason(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 1)...)
		n := w.start(w.options(), nil)
		held := n.holding(1)
		fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "jobs", Err: kerr.UnknownServerError})
		w.until("a fetch fails", func() bool { return fault.Hits() == 1 })
		w.until("it works again", func() bool { return n.c.Status().Faulty.IsZero() })
		other := w.start(w.options(), settled)
		w.until("the group rebalances", func() bool { return !n.c.Status().Joined })
		if s := n.c.Status(); s.LastError != nil || s.Ready().Error() != "not joined yet" {
			t.Errorf("got error %v and readiness %v, want none and not joined yet", s.LastError, s.Ready())
		}
		held[0].Done(consumer.Outcome{})
		w.ok(other.end())
		w.ok(n.end())
	})
}

// A node is not ready before the first join.
func TestNotReadyBeforeTheJoin(t *testing.T) {
	t.Parallel()
	if err := (consumer.Status{}).Ready(); err == nil {
		t.Error("got ready, want an error before the join")
	}
}

// A partition without a leader delays no other partition. It begins when it has a leader.
func TestPartitionWithoutALeader(t *testing.T) {
	t.Parallel()
	bubble(t, 2, func(w *fleet) {
		fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "jobs", Partitions: []int32{1}, Err: kerr.LeaderNotAvailable, Count: -1})
		w.produce("jobs", job.Record{Key: []byte(keysOf(0, 2, 1)[0]), Value: []byte("led")}, job.Record{Key: []byte(keysOf(1, 2, 1)[0]), Value: []byte("leaderless")})
		n := w.start(w.options(), nil)
		held := n.holding(1)
		time.Sleep(11 * time.Second)
		if s := n.c.Status(); string(held[0].Job.Value) != "led" || !s.Joined || s.Ready() == nil || len(s.Partitions) != 1 {
			t.Errorf("got %s in flight, readiness %v and status %+v, want led, unready and one partition", held[0].Job.Value, s.Ready(), s)
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
			t.Errorf("late partition: got offset %d committed, want 1", got)
		}
	})
}

// A broker takes requests for the start offsets of its partitions and never answers. The
// partitions of other brokers begin, the log warns, and the others begin when it answers again.
func TestABrokerThatDoesNotAnswerHoldsUpItsPartitionsAlone(t *testing.T) {
	t.Parallel()
	bubbleWith(t, 2, func(w *fleet) {
		for p := range int32(2) {
			w.ok(w.cluster.MoveTopicPartition("jobs", p, p))
			w.produce("jobs", keyed(keysOf(int(p), 2, 1)[0], "x"))
		}
		var frozen atomic.Bool
		frozen.Store(true)
		lossy := w.lossy(func(key int16, _ int) bool { return key == kmsg.ListOffsets.Int16() && frozen.Load() })
		log := newLineCounter()
		o := w.options()
		o.Logger = slog.New(log)
		o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if strings.HasSuffix(addr, ":9093") {
				return lossy(ctx, network, addr)
			}
			return w.net.DialContext(ctx, network, addr)
		}
		n := w.start(o, settled)
		w.waitFor("jobs", 0, 1)
		time.Sleep(10 * time.Second)
		if got := log.count("could not read start offsets, trying again"); got != 1 || len(n.values()) != 1 || n.c.Status().Ready() == nil {
			t.Errorf("got %d warnings, %v handed out and readiness %v, want 1, one job and a reason", got, n.values(), n.c.Status().Ready())
		}
		frozen.Store(false)
		w.waitFor("jobs", 1, 1)
		if err := n.c.Status().Ready(); err != nil {
			t.Errorf("got readiness %v, want none", err)
		}
		w.ok(n.end())
	}, []kfake.Opt{kfake.NumBrokers(2), kfake.Ports(9092, 9093)})
}

// A commit that hangs does not prolong the drain: the stop ends before the session does.
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
			t.Errorf("got a stop after %v, want at most session − heartbeat = 5s, and a little", took)
		}
	})
}
