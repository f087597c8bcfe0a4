package pacer

import (
	"context"
	"errors"
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
func (s *shelf) ReadyLanes() uint16     { return 1 }

func (s *shelf) TakeFrom(int) *consumer.Delivery { return s.Take() }

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

func (s *shelf) PutBack(jobs []*consumer.Delivery) {
	s.taken.Add(-int64(len(jobs)))
	s.n.Add(int64(len(jobs)))
}

// Defer is for no job here: none counts on a second limit.
func (s *shelf) Defer(*consumer.Delivery, consumer.DeferOptions) { panic("a job is deferred") }

// Resume is for no job likewise.
func (s *shelf) Resume([]*consumer.Delivery) { panic("a job is resumed") }

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
func (alwaysReady) Take() sender.Conn                          { return sender.Unreached(errors.New("nothing is connected")) }

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

// oneConnection is never more than one at a time. It notes what lacked one.
type oneConnection struct {
	alwaysReady
	free   bool
	lacked int
}

func (c *oneConnection) Prepare(d sender.Demand) bool {
	c.free = true
	c.lacked += d.Lacked
	return true
}

func (c *oneConnection) Take() sender.Conn {
	if !c.free {
		return sender.Conn{}
	}
	c.free = false
	return c.alwaysReady.Take()
}

// failing opens no connection.
type failing struct{ alwaysReady }

var errNoRoute = errors.New("no route to host")

func (failing) Prepare(sender.Demand) bool                 { return false }
func (failing) Await(context.Context, sender.Demand) error { return errNoRoute }

// costly holds jobs of six units.
type costly struct{ *shelf }

func (s *costly) TakeFrom(int) *consumer.Delivery {
	d := s.Take()
	if d != nil {
		d.Job.Cost = 6
	}
	return d
}

// A job whose connection could not be opened goes to a worker with what it wants of the limits: its worker may dial
// again and call it.
func TestAJobOfAFailedDialKeepsWhatItWants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &costly{newShelf()}
		pace(t, s, s.ready, nil, func(items <-chan Item, p *Pacer, _ func()) {
			p.o.Connections = failing{}
			s.put(1)
			item := <-items
			<-p.o.Places
			if !item.Slot.IsZero() || item.Wants.Cost != 6 {
				t.Errorf("got a slot: %t, and %d units, want no slot and 6", !item.Slot.IsZero(), item.Wants.Cost)
			}
		})
	})
}

// Where connections are fewer than jobs that there is room for, the sender learns how many
// lack one.
func TestTheSenderLearnsHowManyJobsLackAConnection(t *testing.T) {
	t.Parallel()
	withPacer(t, func(s *shelf, _ <-chan Item, p *Pacer, _ func()) {
		for _, c := range []struct{ jobs, room, lacked int64 }{{10, 6, 5}, {4, 6, 3}, {1, 6, 0}, {10, 1, 0}} {
			conns := &oneConnection{free: true}
			p.o.Connections = conns
			s.n.Store(c.jobs)
			block, _ := p.take(throttle.Room{Jobs: int(c.room), Units: c.room}, time.Now())
			if len(block) != 1 || int64(conns.lacked) != c.lacked {
				t.Errorf("%d jobs, room for %d: got %d jobs taken and %d without a connection, want 1 and %d", c.jobs, c.room, len(block), conns.lacked, c.lacked)
			}
		}
		s.n.Store(0)
	})
}

// withPacer runs a pacer at ten slots a second in a bubble.
func withPacer(t *testing.T, test func(s *shelf, items <-chan Item, p *Pacer, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		pace(t, s, s.ready, nil, func(items <-chan Item, p *Pacer, stop func()) { test(s, items, p, stop) })
	})
}

func newShelf() *shelf { return &shelf{ready: make(chan struct{}, 1)} }

// pace runs a pacer at ten slots a second on these jobs, in lanes of these min shares, until the test is over.
func pace(t *testing.T, s Jobs, ready chan struct{}, minShares []float64, test func(items <-chan Item, p *Pacer, stop func())) {
	t.Helper()
	c := limit.Contract{Cap: 10, Window: time.Second, Burst: 1, Guard: 10 * time.Millisecond, Lateness: 3 * time.Millisecond, Horizon: 200 * time.Millisecond}
	lim, err := throttle.New(throttle.Options{
		Namespace: "ns", Name: "provider", Node: "n", Limit: limit.Spec{Terms: limit.Terms{Contract: c}, Scope: limit.ScopeNode}, MinShares: minShares,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = lim.Run(ctx) }()
	p := New(Options{
		Jobs: s, Places: NewPlaces(), Connections: alwaysReady{}, Limiter: lim, Breaker: breaker.New(5, time.Second, func(bool) {}),
		Workers: 256, IdleTimeout: time.Minute, Lanes: len(minShares),
	})
	go p.Run(ctx)
	test(p.Items(), p, stop)
	stop()
	close(ready)
	for range p.Items() {
	}
	<-ended
}

// twoLanes holds jobs of two lanes. A job's partition says which one it is of.
type twoLanes struct {
	*shelf

	urgent atomic.Int64 // the others are the shelf's
}

func (s *twoLanes) ReadyJobs() int { return s.shelf.ReadyJobs() + int(s.urgent.Load()) }

func (s *twoLanes) ReadyLanes() (lanes uint16) {
	if s.urgent.Load() > 0 {
		lanes |= 1
	}
	if s.n.Load() > 0 {
		lanes |= 2
	}
	return lanes
}

func (s *twoLanes) TakeFrom(lane int) *consumer.Delivery {
	if lane == 1 {
		d := s.Take()
		if d != nil {
			d.Job.Partition = 1
		}
		return d
	}
	if s.urgent.Load() == 0 {
		return nil
	}
	s.urgent.Add(-1)
	return &consumer.Delivery{}
}

func (s *twoLanes) PutBack(jobs []*consumer.Delivery) {
	for _, d := range jobs {
		if d.Job.Partition == 0 {
			s.urgent.Add(1)
		} else {
			s.shelf.PutBack([]*consumer.Delivery{d})
		}
	}
}

// A job of the first lane that comes while the pacer waits for a turn of another lane goes next. One that has a slot already stays
// before it. The other lane gets its min share.
func TestJobsOfTheLaneThatHasTheTurnAreTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &twoLanes{shelf: newShelf()}
		pace(t, s, s.ready, []float64{0, 0.25}, func(items <-chan Item, p *Pacer, _ func()) {
			lane := func() int {
				item := <-items
				<-p.o.Places
				return item.Delivery.Job.Partition
			}
			s.put(100)
			for range 3 {
				if got := lane(); got != 1 {
					t.Fatalf("got a job of lane %d, want of the only one that has some", got)
				}
			}
			synctest.Wait() // the pacer waits for its turn
			s.urgent.Add(40)
			s.put(0)
			before, others := 0, 0
			for n := range 40 {
				got := lane()
				others += got
				if n < 3 {
					before += got
				}
			}
			if before > 2 {
				t.Errorf("got %d of the next 3 jobs of the other lane, want those alone that had slots", before)
			}
			if others < 9 || others > 13 {
				t.Errorf("got %d of 40 jobs of the other lane, want its min share of 10", others)
			}
		})
	})
}

// A job goes to a worker when its slot is near. It is taken for one block, and the jobs of
// later blocks wait in the consumer.
func TestAJobIsHandedOutWhenItsSlotIsNear(t *testing.T) {
	t.Parallel()
	withPacer(t, func(s *shelf, items <-chan Item, p *Pacer, _ func()) {
		s.put(9)
		for handed := range int64(3) {
			item := <-items
			<-p.o.Places
			if ahead := time.Until(item.Slot.NotBefore); ahead > MaxLead || s.taken.Load() > handed+2 {
				t.Errorf("got a job %v before its slot and %d taken, want at most %v and %d", ahead, s.taken.Load(), MaxLead, handed+2)
			}
		}
	})
}

// No slot is reserved for jobs that go away before it is their turn.
func TestJobsThatGoAwayUseNoSlot(t *testing.T) {
	t.Parallel()
	withPacer(t, func(s *shelf, items <-chan Item, p *Pacer, _ func()) {
		s.put(1)
		first := <-items
		<-p.o.Places
		s.put(1)
		synctest.Wait() // the pacer waits for the limiter
		s.n.Store(0)    // and the job goes
		time.Sleep(50 * time.Millisecond)
		s.put(1)
		second := <-items
		<-p.o.Places
		if got := second.Slot.NotBefore.Sub(first.Slot.NotBefore); got > 120*time.Millisecond {
			t.Errorf("got a slot %v behind the first one, want the next one", got)
		}
	})
}

// A stop ends the wait for the limiter and for slots, puts the jobs back that no worker
// has, and ends the pacer.
func TestAStopEndsThePacer(t *testing.T) {
	t.Parallel()
	withPacer(t, func(s *shelf, items <-chan Item, p *Pacer, stop func()) {
		s.put(1)
		<-items
		<-p.o.Places
		s.put(5)
		synctest.Wait()
		stop()
		synctest.Wait()
		if len(p.o.Places) != 0 || s.taken.Load() != 1 {
			t.Errorf("got %d places and %d jobs taken, want 0 and 1", len(p.o.Places), s.taken.Load())
		}
	})
}

// Jobs that are taken away while the provider is down leave the pacer free: it
// reserves no slot, and awaits no connection that nobody would use.
func TestThePacerWaitsForNoJobThatWasTakenAway(t *testing.T) {
	t.Parallel()
	withPacer(t, func(s *shelf, items <-chan Item, p *Pacer, _ func()) {
		p.o.Connections = dialling{}
		s.put(1)
		<-items
		<-p.o.Places
		openBreaker(t, p.o.Breaker, 5)
		s.put(1)
		synctest.Wait()
		s.n.Store(0)
		time.Sleep(10 * time.Second)
		if len(p.o.Places) != 0 || s.taken.Load() != 1 {
			t.Errorf("got %d places and %d jobs taken without a job, want 0 and 1", len(p.o.Places), s.taken.Load())
		}
		within, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := p.connect(within); err != nil { // they may go at any time
			t.Error(err)
		}
		begin := time.Now()
		s.put(1)
		select {
		case <-items:
			<-p.o.Places
		case <-time.After(time.Minute):
		}
		if took := time.Since(begin); took > 3*time.Second/2 {
			t.Errorf("the next job waited for %v, want it to go with the probe that is due", took)
		}
	})
}

// However high the rate is, with the dedup store a job is handed out so early that it is
// claimed before its slot.
func TestAPacerWithClaimsHandsOutEarlier(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cap           int64
		plain, claims time.Duration
	}{
		{10, MaxLead, LeadWithClaim},
		{1000, MaxLead, LeadWithClaim},
		{10_000, 1_616 * time.Microsecond, minLeadWithClaim},
	} {
		lim, err := throttle.New(throttle.Options{
			Namespace: "ns", Name: "provider", Node: "n",
			Limit: limit.Spec{Scope: limit.ScopeNode, Terms: limit.Terms{Contract: limit.Contract{
				Cap: c.cap, Window: time.Second, Burst: 1, Guard: 10 * time.Millisecond, Lateness: 3 * time.Millisecond, Horizon: 200 * time.Millisecond,
			}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		plain, claims := New(Options{Limiter: lim}).lead(), New(Options{Limiter: lim, Claims: true}).lead()
		if plain.Round(time.Microsecond) != c.plain || claims != c.claims {
			t.Errorf("%d a second: got %v, and %v with claims; want %v and %v", c.cap, plain, claims, c.plain, c.claims)
		}
	}
}

// openBreaker fails calls until the breaker opens.
func openBreaker(t *testing.T, b *breaker.Breaker, failures int) {
	t.Helper()
	for range failures {
		done, err := b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		done(sender.Result{Kind: sender.Unavailable}, breaker.ToProvider)
	}
}
