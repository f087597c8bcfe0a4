package node

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/consumer"
	"dispatcher/internal/node/breaker"
	"dispatcher/sender"
	"dispatcher/throttle"
	"dispatcher/throttle/limit"
)

// shelf holds jobs for a pacer.
type shelf struct {
	ready chan struct{}
	n     atomic.Int64
	taken atomic.Int64
}

func (s *shelf) Ready() <-chan struct{} { return s.ready }
func (s *shelf) ReadyJobs() int         { return int(s.n.Load()) }

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

// alwaysReady always has a connection.
type alwaysReady struct{}

func (alwaysReady) Prepare(sender.Demand) bool                 { return true }
func (alwaysReady) Await(context.Context, sender.Demand) error { return nil }
func (alwaysReady) Take() sender.Conn                          { return sender.Conn{} }

// dialling has no connection until one was awaited, and opens none where no job
// needs it.
type dialling struct{ alwaysReady }

func (dialling) Prepare(sender.Demand) bool { return false }

func (dialling) Await(ctx context.Context, d sender.Demand) error {
	if d.Jobs > 0 {
		return nil
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// withPacer runs a pacer at ten slots a second in a bubble.
func withPacer(t *testing.T, test func(s *shelf, items <-chan workItem, p *pacer, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := limit.Contract{Cap: 10, Window: time.Second, Burst: 1, Guard: 10 * time.Millisecond, Lateness: 3 * time.Millisecond, Horizon: 200 * time.Millisecond}
		s := &shelf{ready: make(chan struct{}, 1)}
		lim, err := throttle.New(throttle.Options{Namespace: "ns", Name: "provider", Node: "n", Limit: limit.Spec{Terms: limit.Terms{Contract: c}, Scope: limit.ScopeNode}, Waiting: s.ReadyJobs})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = lim.Run(ctx) }()
		items := make(chan workItem)
		p := &pacer{
			jobs: s, items: items, conns: alwaysReady{}, idleTimeout: time.Minute, maxConns: 256, limiter: lim, breaker: breaker.New(5, time.Second, func(bool) {}),
			places: make(chan struct{}, maxUnwritten), blocked: new(atomic.Bool),
		}
		go p.run(ctx)
		test(s, items, p, stop)
		stop()
		close(s.ready)
		for range items {
		}
		<-ended
	})
}

// A job is taken only when its slot is near, so that a better one may come
// meanwhile.
func TestAJobIsTakenWhenItsSlotIsNear(t *testing.T) {
	t.Parallel()
	withPacer(t, func(s *shelf, items <-chan workItem, p *pacer, _ func()) {
		s.put(3)
		for range 3 {
			before := s.taken.Load()
			item := <-items
			<-p.places
			if ahead := time.Until(item.slot.NotBefore); ahead > maxLead || s.taken.Load() != before+1 {
				t.Errorf("got a job %v before its slot and %d taken, want at most %v and %d", ahead, s.taken.Load(), maxLead, before+1)
			}
		}
	})
}

// Jobs that go away while a slot is awaited leave the slot to the next ones, and
// take no place.
func TestASlotWhoseJobWentAwayStays(t *testing.T) {
	t.Parallel()
	withPacer(t, func(s *shelf, items <-chan workItem, p *pacer, _ func()) {
		s.put(1)
		<-items
		<-p.places
		s.put(1)
		synctest.Wait() // the pacer waits for the second slot
		s.n.Store(0)    // and its job goes
		time.Sleep(50 * time.Millisecond)
		if len(p.places) != 1 {
			t.Errorf("got %d places before the slot is near, want 1", len(p.places))
		}
		time.Sleep(48 * time.Millisecond)
		synctest.Wait()
		if len(p.places) != 0 {
			t.Errorf("got %d places, want none", len(p.places))
		}
		begin := time.Now()
		s.put(1)
		<-items
		<-p.places
		if took := time.Since(begin); took > 5*time.Millisecond {
			t.Errorf("the next job waited for %v, want the slot that was left", took)
		}
	})
}

// A stop ends the wait for a slot, and the pacer with it.
func TestAStopEndsThePacer(t *testing.T) {
	t.Parallel()
	withPacer(t, func(s *shelf, items <-chan workItem, p *pacer, stop func()) {
		s.put(1)
		<-items
		<-p.places
		s.put(5)
		synctest.Wait()
		stop()
		synctest.Wait()
		if len(p.places) != 0 || s.taken.Load() != 1 {
			t.Errorf("got %d places and %d jobs taken, want 0 and 1", len(p.places), s.taken.Load())
		}
	})
}

// Jobs that are taken away while the provider is down leave the pacer free: it
// reserves no slot, and awaits no connection that nobody would use.
func TestThePacerWaitsForNoJobThatWasTakenAway(t *testing.T) {
	t.Parallel()
	withPacer(t, func(s *shelf, items <-chan workItem, p *pacer, _ func()) {
		p.conns = dialling{}
		s.put(1)
		<-items
		<-p.places
		openBreaker(t, p.breaker, 5)
		s.put(1)
		synctest.Wait()
		s.n.Store(0)
		time.Sleep(10 * time.Second)
		if len(p.places) != 0 || p.blocked.Load() || !p.slot.IsZero() {
			t.Errorf("got %d places, blocked %v and slot %v without a job, want none of them", len(p.places), p.blocked.Load(), p.slot)
		}
		if err := p.connect(t.Context()); err != nil { // they may go at any time
			t.Error(err)
		}
		begin := time.Now()
		s.put(1)
		<-items
		<-p.places
		if took := time.Since(begin); took > 3*time.Second/2 {
			t.Errorf("the next job waited for %v, want it to go with the probe that is due", took)
		}
	})
}
