package node

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/consumer"
	"dispatcher/throttle"
)

// post is a member of a fleet whose others a test moves.
type post struct {
	mu     sync.Mutex
	others func() consumer.PeerProgress
	fault  error
	work   bool
	aside  error
	turns  []time.Duration // when it stood aside or took part, by turns
	began  time.Time
	sick   error
}

func (p *post) Status() consumer.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.work {
		return consumer.Status{Lag: 1}
	}
	return consumer.Status{}
}

func (p *post) PeerProgress(context.Context) (consumer.PeerProgress, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.others(), p.fault
}

func (p *post) LeaveGroups(why error) { p.turn(why) }
func (p *post) RejoinGroups()         { p.turn(nil) }

func (p *post) turn(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.aside = why
	p.turns = append(p.turns, time.Since(p.began).Round(time.Second))
}

func (p *post) unfit() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sick
}

// is sets how the node and the others are from now on.
func (p *post) is(sick error, work bool, others func() consumer.PeerProgress) {
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

func watched(t *testing.T, test func(p *post)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &post{began: time.Now(), others: still}
		dog := &watchdog{member: p, unfit: p.unfit, after: time.Minute, calls: 10 * time.Second, log: slog.New(slog.DiscardHandler)}
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { dog.run(ctx); close(over) }()
		test(p)
		stop()
		<-over
	})
}

var errCut = errors.New("redis is away")

// turned waits and compares when the node stood aside and took part.
func (p *post) turned(t *testing.T, after time.Duration, want ...time.Duration) {
	t.Helper()
	time.Sleep(after)
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	ok := len(p.turns) == len(want)
	for i := range min(len(p.turns), len(want)) {
		late := p.turns[i] - want[i]
		ok = ok && late >= 0 && late <= time.Duration(i+1)*7*mostLook // each turn waits for a few looks
	}
	if !ok {
		t.Errorf("after %v: got turns at %v, want %v and a look each", time.Since(p.began), p.turns, want)
	}
}

// A node that can't work while others do, or have nothing to do, stands aside after
// its time, and takes part again as soon as it can.
func TestAWedgedNodeStandsAside(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]func() consumer.PeerProgress{"they work": works, "they are idle": idle} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			watched(t, func(p *post) {
				p.is(errCut, true, others)
				p.turned(t, 58*time.Second)
				p.turned(t, 10*time.Minute, time.Minute)
				if !errors.Is(p.aside, errCut) {
					t.Errorf("got %v as the reason, want %v", p.aside, errCut)
				}
				p.is(nil, true, works)
				p.turned(t, time.Hour, time.Minute, 10*time.Minute+58*time.Second)
			})
		})
	}
}

// A node stays where it is when nobody else works, when there is nobody, when it
// has no work, when it is unwell for less than its time, while it can't ask, and
// while what the others do is only the end of calls that were under way.
func TestANodeThatIsNotWedgedStays(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]func(p *post){
		"nobody works":  func(p *post) { p.is(errCut, true, still) },
		"nobody else":   func(p *post) { p.is(errCut, true, alone) },
		"no work":       func(p *post) { p.is(errCut, false, works) },
		"well":          func(p *post) { p.is(nil, true, works) },
		"kafka is away": func(p *post) { p.away(); p.is(errCut, true, works) },
		"unwell now and then": func(p *post) {
			for range 20 {
				p.is(errCut, true, works)
				time.Sleep(50 * time.Second)
				p.is(nil, true, works)
				time.Sleep(2 * time.Second)
			}
		},
		"the last calls end": func(p *post) {
			p.is(errCut, true, works)
			time.Sleep(40 * time.Second)
			p.is(errCut, true, still)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			watched(t, func(p *post) {
				state(p)
				p.turned(t, time.Hour)
			})
		})
	}
}

// away: Kafka can't be asked.
func (p *post) away() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = errors.New("no broker")
}

// A provider that answers shows only in a call: the node asks for jobs again after
// a rest, which doubles as long as the provider does not answer. A node that comes
// back unwell is not waited for as long as the first time.
func TestTheProviderIsAskedAgainAfterARest(t *testing.T) {
	t.Parallel()
	watched(t, func(p *post) {
		p.is(errProvider, true, works)
		const m, q = time.Minute, 30 * time.Second // q: unfit for a stretch, and the others watched for one
		turns := []time.Duration{1 * m, 2 * m, 2*m + q, 4*m + q, 5 * m, 9 * m, 9*m + q, 17*m + q, 18 * m}
		p.turned(t, 25*m, turns...)
		p.is(nil, true, works) // it answers
		turns = append(turns, 25*m)
		p.turned(t, 10*m, turns...)
		p.is(errProvider, true, works)
		p.turned(t, 2*m+30*time.Second, append(turns, 36*m, 37*m)...)
	})
}

// Where others have work and don't do it either, whoever stands aside takes part
// again, whatever the reason was, and stays.
func TestNobodyStandsAsideForOthersThatDoNothing(t *testing.T) {
	t.Parallel()
	watched(t, func(p *post) {
		p.is(errCut, true, works)
		p.turned(t, 2*time.Minute, time.Minute)
		p.is(errCut, true, still)
		// The last they did was seen in the stretch that ended before this one.
		p.turned(t, 2*time.Minute, time.Minute, 2*time.Minute+45*time.Second)
		p.is(errCut, true, still)
		p.turned(t, time.Hour, time.Minute, 2*time.Minute+45*time.Second)
	})
}

// A node that comes back unwell stands aside again for others that are idle, since
// they have done its work meanwhile.
func TestOthersThatDidTheWorkGetItAgain(t *testing.T) {
	t.Parallel()
	watched(t, func(p *post) {
		const m, q = time.Minute, 30 * time.Second
		p.is(errProvider, true, works)
		p.turned(t, 2*m+10*time.Second, 1*m, 2*m)
		p.is(errProvider, true, idle)
		p.turned(t, 2*m, 1*m, 2*m, 2*m+q)
	})
}

// A standby gets its chance once.
func TestAStandbyGetsOneChance(t *testing.T) {
	t.Parallel()
	watched(t, func(p *post) {
		p.is(errCut, true, idle)
		p.turned(t, 70*time.Second, time.Minute)
		p.is(errCut, true, still) // it has got the work, and can't do it either
		p.turned(t, 2*time.Minute, time.Minute, 2*time.Minute)
		p.is(errCut, true, idle) // it is a standby again
		p.turned(t, time.Hour, time.Minute, 2*time.Minute)
	})
}

// To wait one's turn is not to be wedged, nor is a pause.
func TestWhatMakesANodeUnfit(t *testing.T) {
	t.Parallel()
	up := func() *gate { return newGate(2, time.Second, func(bool) {}) }
	down := up()
	for range 2 {
		done, err := down.breaker.Allow()
		if err != nil {
			t.Fatal(err)
		}
		done(errCallFailed)
	}
	for _, c := range []struct {
		name  string
		state throttle.State
		gate  *gate
		want  bool
	}{
		{"running", throttle.State{Phase: throttle.PhaseRunning}, up(), false},
		{"paused", throttle.State{Phase: throttle.PhasePaused}, up(), false},
		{"fenced", throttle.State{Phase: throttle.PhaseCooldown}, up(), false},
		{"on the reserve", throttle.State{Phase: throttle.PhaseReserve, Err: errCut}, up(), false},
		{"away", throttle.State{Phase: throttle.PhaseAway, Err: errCut}, up(), true},
		{"too slow", throttle.State{Phase: throttle.PhaseTooSlow}, up(), true},
		{"no answers", throttle.State{Phase: throttle.PhaseRunning}, down, true},
	} {
		if why := unfit(c.state, c.gate); (why != nil) != c.want {
			t.Errorf("%s: got %v, want unfit: %v", c.name, why, c.want)
		}
	}
}
