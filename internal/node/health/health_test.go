package health

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/consumer"
	"dispatcher/internal/node/breaker"
	"dispatcher/sender"
	"dispatcher/throttle/phase"
)

// member is a node of a fleet whose other nodes a test moves.
type member struct {
	mu     sync.Mutex
	others func() consumer.PeerProgress
	fault  error
	work   bool
	left   error           // why it left its groups; nil: it is in them
	moves  []time.Duration // when it left and rejoined, alternately
	began  time.Time
	sick   error
}

func (p *member) Status() consumer.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.work {
		return consumer.Status{Lag: 1}
	}
	return consumer.Status{}
}

func (p *member) PeerProgress(context.Context) (consumer.PeerProgress, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.others(), p.fault
}

func (p *member) LeaveGroups(why error) { p.move(why) }
func (p *member) RejoinGroups()         { p.move(nil) }

func (p *member) move(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = why
	p.moves = append(p.moves, time.Since(p.began).Round(time.Second))
}

func (p *member) cause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sick
}

// is sets how the node and the others are from now on.
func (p *member) is(sick error, work bool, others func() consumer.PeerProgress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sick, p.work, p.others = sick, work, others
}

// still: others have work, and don't do it.
func still() consumer.PeerProgress {
	return consumer.PeerProgress{Others: true, Lag: 1, Committed: map[consumer.TopicPartition]int64{{Topic: "jobs", Partition: 1}: 7}}
}

// works: they do it.
func works() consumer.PeerProgress {
	e := still()
	e.Committed = map[consumer.TopicPartition]int64{{Topic: "jobs", Partition: 1}: time.Now().UnixNano()}
	return e
}

// idle: they have none.
func idle() consumer.PeerProgress { return consumer.PeerProgress{Others: true} }

// alone: there are none.
func alone() consumer.PeerProgress { return consumer.PeerProgress{} }

func withCheck(t *testing.T, test func(p *member)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &member{began: time.Now(), others: still}
		check := &Check{Member: p, Cause: p.cause, StalledAfter: time.Minute, LastCalls: 10 * time.Second, Log: slog.New(slog.DiscardHandler)}
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { check.Run(ctx); close(over) }()
		test(p)
		stop()
		<-over
	})
}

var errCut = errors.New("redis is away")

// moved waits and compares when the node left its groups and rejoined them.
func (p *member) moved(t *testing.T, after time.Duration, want ...time.Duration) {
	t.Helper()
	time.Sleep(after)
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	ok := len(p.moves) == len(want)
	for i := range min(len(p.moves), len(want)) {
		late := p.moves[i] - want[i]
		ok = ok && late >= 0 && late <= time.Duration(i+1)*7*maxInterval // each move waits for a few checks
	}
	if !ok {
		t.Errorf("after %v: got moves at %v, want %v and a few checks each", time.Since(p.began), p.moves, want)
	}
}

// A node that is unhealthy for stalled_after, while others work or are idle, leaves
// its groups. It rejoins as soon as it is healthy.
func TestAStalledNodeLeavesItsGroups(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]func() consumer.PeerProgress{"they work": works, "they are idle": idle} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withCheck(t, func(p *member) {
				p.is(errCut, true, others)
				p.moved(t, 58*time.Second)
				p.moved(t, 10*time.Minute, time.Minute)
				if !errors.Is(p.left, errCut) {
					t.Errorf("got %v as the reason, want %v", p.left, errCut)
				}
				p.is(nil, true, works)
				p.moved(t, time.Hour, time.Minute, 10*time.Minute+58*time.Second)
			})
		})
	}
}

// A node stays in its groups when no other node works, when there is no other node,
// when it has no jobs, when it is unhealthy for less than stalled_after, while Kafka
// does not answer, and while the others only settle calls that were in flight.
func TestANodeThatIsNotStalledStays(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]func(p *member){
		"nobody works":  func(p *member) { p.is(errCut, true, still) },
		"nobody else":   func(p *member) { p.is(errCut, true, alone) },
		"no work":       func(p *member) { p.is(errCut, false, works) },
		"healthy":       func(p *member) { p.is(nil, true, works) },
		"kafka is away": func(p *member) { p.away(); p.is(errCut, true, works) },
		"unhealthy now and then": func(p *member) {
			for range 20 {
				p.is(errCut, true, works)
				time.Sleep(50 * time.Second)
				p.is(nil, true, works)
				time.Sleep(2 * time.Second)
			}
		},
		"the last calls end": func(p *member) {
			p.is(errCut, true, works)
			time.Sleep(40 * time.Second)
			p.is(errCut, true, still)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withCheck(t, func(p *member) {
				state(p)
				p.moved(t, time.Hour)
			})
		})
	}
}

// away: Kafka does not answer.
func (p *member) away() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = errors.New("no broker")
}

// Only a call can show that the provider answers. So the node rejoins after a rest,
// which doubles while the provider does not answer.
func TestANodeRejoinsAfterARest(t *testing.T) {
	t.Parallel()
	withCheck(t, func(p *member) {
		p.is(ErrProvider, true, works)
		const m = time.Minute
		moves := []time.Duration{1 * m, 2 * m, 3 * m, 5 * m, 6 * m, 10 * m, 11 * m, 19 * m, 20 * m}
		p.moved(t, 25*m, moves...)
		p.is(nil, true, works) // it answers
		moves = append(moves, 25*m)
		p.moved(t, 10*m, moves...)
		p.is(ErrProvider, true, works)
		p.moved(t, 2*m+30*time.Second, append(moves, 36*m, 37*m)...)
	})
}

// A node that left since Redis is away stays out until its own way to Redis works,
// also when the others stop working: it sees that without a call.
func TestANodeWithoutRedisStaysOutUntilItIsHealthy(t *testing.T) {
	t.Parallel()
	withCheck(t, func(p *member) {
		p.is(errCut, true, works)
		p.moved(t, 2*time.Minute, time.Minute)
		p.is(errCut, true, still)
		p.moved(t, time.Hour, time.Minute)
		p.is(nil, true, still)
		p.moved(t, time.Hour, time.Minute, 62*time.Minute)
	})
}

// A node that rejoins and is still unhealthy leaves again for idle nodes, if they did
// its jobs while it was away.
func TestNodesThatDidTheJobsGetThemAgain(t *testing.T) {
	t.Parallel()
	withCheck(t, func(p *member) {
		const m = time.Minute
		p.is(ErrProvider, true, works)
		p.moved(t, 2*m+10*time.Second, 1*m, 2*m)
		p.is(ErrProvider, true, idle)
		p.moved(t, 2*m, 1*m, 2*m, 3*m)
	})
}

// A node leaves for a standby once. If the standby can't do the jobs either, the node
// rejoins and stays.
func TestANodeLeavesForAStandbyOnce(t *testing.T) {
	t.Parallel()
	withCheck(t, func(p *member) {
		p.is(ErrProvider, true, idle)
		p.moved(t, 70*time.Second, time.Minute)
		p.is(ErrProvider, true, still) // it has got the work, and can't do it either
		p.moved(t, 2*time.Minute, time.Minute, 2*time.Minute)
		p.is(ErrProvider, true, idle) // it is a standby again
		p.moved(t, time.Hour, time.Minute, 2*time.Minute)
	})
	withCheck(t, func(p *member) {
		p.is(errCut, true, idle)
		p.moved(t, 70*time.Second, time.Minute)
		p.is(errCut, true, still)
		p.moved(t, time.Hour, time.Minute) // it sees without a call that Redis is away
	})
}

// A node that waits its turn is healthy, and so is one whose limit is paused.
func TestWhatMakesANodeUnhealthy(t *testing.T) {
	t.Parallel()
	up := func() *breaker.Breaker { return breaker.New(2, time.Second, func(bool) {}) }
	down := up()
	for range 2 {
		done, err := down.Allow()
		if err != nil {
			t.Fatal(err)
		}
		done(sender.Result{Kind: sender.Unavailable}, breaker.ToProvider)
	}
	for _, c := range []struct {
		name    string
		state   phase.State
		breaker *breaker.Breaker
		want    bool
	}{
		{"running", phase.State{Phase: phase.Running}, up(), false},
		{"paused", phase.State{Phase: phase.Paused}, up(), false},
		{"cooling down", phase.State{Phase: phase.Cooldown}, up(), false},
		{"new settings", phase.State{Phase: phase.Changing}, up(), false},
		{"on the reserve", phase.State{Phase: phase.Reserve, Err: errCut}, up(), false},
		{"away", phase.State{Phase: phase.Away, Err: errCut}, up(), true},
		{"too slow", phase.State{Phase: phase.TooSlow}, up(), true},
		{"no answers", phase.State{Phase: phase.Running}, down, true},
	} {
		if cause := Cause(c.state, c.breaker.Closed()); (cause != nil) != c.want {
			t.Errorf("%s: got cause %v, want unhealthy: %v", c.name, cause, c.want)
		}
	}
}
