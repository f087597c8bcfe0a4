package node

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/consumer"
	"dispatcher/sender"
	"dispatcher/throttle"
	"dispatcher/throttle/limit"
)

// shelf holds jobs for a line.
type shelf struct {
	ready chan struct{}
	n     atomic.Int64
	taken atomic.Int64
}

func (s *shelf) Ready() <-chan struct{} { return s.ready }
func (s *shelf) Waiting() int           { return int(s.n.Load()) }

func (s *shelf) Take() *consumer.Delivery {
	if s.n.Load() == 0 {
		return nil
	}
	s.n.Add(-1)
	s.taken.Add(1)
	return &consumer.Delivery{}
}

// TakeSample is Take: no job here has failed.
func (s *shelf) TakeSample() *consumer.Delivery { return s.Take() }

func (s *shelf) put(n int64) {
	s.n.Add(n)
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// atHand always has a connection.
type atHand struct{}

func (atHand) Ready(sender.Demand) bool                   { return true }
func (atHand) Await(context.Context, sender.Demand) error { return nil }
func (atHand) Take() sender.Conn                          { return sender.Conn{} }

// dialling has no connection at hand until one was awaited, and opens none
// where no job needs it.
type dialling struct{ atHand }

func (dialling) Ready(sender.Demand) bool { return false }

func (dialling) Await(ctx context.Context, d sender.Demand) error {
	if d.Jobs > 0 {
		return nil
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// withLine runs a line at ten slots a second in a bubble.
func withLine(t *testing.T, test func(s *shelf, turns <-chan turn, l *line, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := limit.Contract{Cap: 10, Window: time.Second, Burst: 1, Guard: 10 * time.Millisecond, Lateness: 3 * time.Millisecond, Horizon: 200 * time.Millisecond}
		s := &shelf{ready: make(chan struct{}, 1)}
		lim, err := throttle.New(throttle.Options{Namespace: "ns", Name: "provider", Node: "n", Limit: limit.Spec{Terms: limit.Terms{Contract: c}, Scope: limit.ScopeNode}, Waiting: s.Waiting})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = lim.Run(ctx) }()
		turns := make(chan turn)
		l := &line{
			jobs: s, turns: turns, conns: atHand{}, keep: time.Minute, most: 256, limiter: lim, gate: newGate(5, time.Second, func(bool) {}),
			wire: make(chan struct{}, atWire), blocked: new(atomic.Bool),
		}
		go l.run(ctx)
		test(s, turns, l, stop)
		stop()
		close(s.ready)
		for range turns {
		}
		<-ended
	})
}

// A job is taken only when its slot is near, so that a better one may come
// meanwhile.
func TestAJobIsTakenWhenItsSlotIsNear(t *testing.T) {
	t.Parallel()
	withLine(t, func(s *shelf, turns <-chan turn, l *line, _ func()) {
		s.put(3)
		for range 3 {
			before := s.taken.Load()
			tn := <-turns
			<-l.wire
			if ahead := time.Until(tn.slot.NotBefore); ahead > near || s.taken.Load() != before+1 {
				t.Errorf("got a job %v before its slot and %d taken, want at most %v and %d", ahead, s.taken.Load(), near, before+1)
			}
		}
	})
}

// Jobs that go away while a slot is awaited leave the slot to the next ones, and
// no token at the wire.
func TestASlotWhoseJobWentAwayStays(t *testing.T) {
	t.Parallel()
	withLine(t, func(s *shelf, turns <-chan turn, l *line, _ func()) {
		s.put(1)
		<-turns
		<-l.wire
		s.put(1)
		synctest.Wait() // the line waits for the second slot
		s.n.Store(0)    // and its job goes
		time.Sleep(50 * time.Millisecond)
		if len(l.wire) != 1 {
			t.Errorf("got %d tokens before the slot is near, want 1", len(l.wire))
		}
		time.Sleep(48 * time.Millisecond)
		synctest.Wait()
		if len(l.wire) != 0 {
			t.Errorf("got %d tokens, want none", len(l.wire))
		}
		begin := time.Now()
		s.put(1)
		<-turns
		<-l.wire
		if took := time.Since(begin); took > 5*time.Millisecond {
			t.Errorf("the next job waited for %v, want the slot that was left", took)
		}
	})
}

// A stop ends the wait for a slot, and the line with it.
func TestAStopEndsTheLine(t *testing.T) {
	t.Parallel()
	withLine(t, func(s *shelf, turns <-chan turn, l *line, stop func()) {
		s.put(1)
		<-turns
		<-l.wire
		s.put(5)
		synctest.Wait()
		stop()
		synctest.Wait()
		if len(l.wire) != 0 || s.taken.Load() != 1 {
			t.Errorf("got %d tokens and %d jobs taken, want 0 and 1", len(l.wire), s.taken.Load())
		}
	})
}

// Jobs that are taken away while the provider is down leave the line free: it
// asks for no slot, and awaits no connection that nobody would use.
func TestJobsThatAreTakenAwayHoldTheLineNot(t *testing.T) {
	t.Parallel()
	withLine(t, func(s *shelf, turns <-chan turn, l *line, _ func()) {
		l.conns = dialling{}
		s.put(1)
		<-turns
		<-l.wire
		shut(t, l.gate, 5)
		s.put(1)
		synctest.Wait()
		s.n.Store(0)
		time.Sleep(10 * time.Second)
		if len(l.wire) != 0 || l.blocked.Load() || !l.slot.IsZero() {
			t.Errorf("got %d tokens, blocked %v and slot %v without a job, want none of them", len(l.wire), l.blocked.Load(), l.slot)
		}
		if err := l.connect(t.Context()); err != nil { // they may go at any time
			t.Error(err)
		}
		begin := time.Now()
		s.put(1)
		<-turns
		<-l.wire
		if took := time.Since(begin); took > 3*time.Second/2 {
			t.Errorf("the next job waited for %v, want it to go with the probe that is due", took)
		}
	})
}
