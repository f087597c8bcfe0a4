package dispatch

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
	others func() consumer.Elsewhere
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

func (p *post) Elsewhere(context.Context) (consumer.Elsewhere, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.others(), p.fault
}

func (p *post) StandAside(why error) { p.turn(why) }
func (p *post) TakePart()            { p.turn(nil) }

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
func (p *post) is(sick error, work bool, others func() consumer.Elsewhere) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sick, p.work, p.others = sick, work, others
}

func still() consumer.Elsewhere { return consumer.Elsewhere{} }

// works: another one does what there is.
func works() consumer.Elsewhere {
	at := consumer.TopicPartition{Topic: "jobs", Partition: 1}
	return consumer.Elsewhere{Committed: map[consumer.TopicPartition]int64{at: time.Now().UnixNano()}}
}

func watched(t *testing.T, test func(p *post)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &post{began: time.Now(), others: still}
		dog := &watchdog{member: p, unfit: p.unfit, after: time.Minute, log: slog.New(slog.DiscardHandler)}
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
		ok = ok && late >= 0 && late <= time.Duration(i+1)*mostLook // each turn waits for a look
	}
	if !ok {
		t.Errorf("after %v: got turns at %v, want %v and a look each", time.Since(p.began), p.turns, want)
	}
}

// A node that can't work while others can stands aside after its time, and takes
// part again as soon as it can.
func TestAWedgedNodeStandsAside(t *testing.T) {
	t.Parallel()
	watched(t, func(p *post) {
		p.is(errCut, true, works)
		p.turned(t, 58*time.Second)
		p.turned(t, 10*time.Minute, time.Minute)
		if !errors.Is(p.aside, errCut) {
			t.Errorf("got %v as the reason, want %v", p.aside, errCut)
		}
		p.is(nil, true, works)
		p.turned(t, time.Hour, time.Minute, 10*time.Minute+58*time.Second)
	})
}

// A node stays where it is when nobody else works, when it has no work, when it
// is unwell for less than its time, and while it can't ask.
func TestANodeThatIsNotWedgedStays(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]func(p *post){
		"nobody works": func(p *post) { p.is(errCut, true, still) },
		"no work":      func(p *post) { p.is(errCut, false, works) },
		"well":         func(p *post) { p.is(nil, true, works) },
		"kafka is away": func(p *post) {
			p.is(errCut, true, works)
			p.fault = errors.New("no broker")
		},
		"unwell now and then": func(p *post) {
			for range 20 {
				p.is(errCut, true, works)
				time.Sleep(50 * time.Second)
				p.is(nil, true, works)
				time.Sleep(2 * time.Second)
			}
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

// A provider that answers shows only in a call: the node asks for jobs again after
// a rest, which doubles as long as the provider does not answer.
func TestTheProviderIsAskedAgainAfterARest(t *testing.T) {
	t.Parallel()
	watched(t, func(p *post) {
		p.is(errProvider, true, works)
		const m = time.Minute
		p.turned(t, 28*m, 1*m, 2*m, 3*m, 5*m, 6*m, 10*m, 11*m, 19*m, 20*m)
		p.is(nil, true, works) // it answers
		p.turned(t, 10*m, 1*m, 2*m, 3*m, 5*m, 6*m, 10*m, 11*m, 19*m, 20*m, 28*m)
		p.is(errProvider, true, works)
		p.turned(t, 2*m+30*time.Second, 1*m, 2*m, 3*m, 5*m, 6*m, 10*m, 11*m, 19*m, 20*m, 28*m, 39*m, 40*m)
	})
}

// To wait one's turn is not to be wedged, nor is a pause; a node whose slots all
// come too late is, and one whose provider does not answer.
func TestWhatMakesANodeUnfit(t *testing.T) {
	t.Parallel()
	up := func() *gate { return newGate(2, time.Second, slog.New(slog.DiscardHandler)) }
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
		{"running", throttle.State{Phase: throttle.PhaseRunning, Late: lateSlots - 1}, up(), false},
		{"paused", throttle.State{Phase: throttle.PhasePaused}, up(), false},
		{"fenced", throttle.State{Phase: throttle.PhaseFenced}, up(), false},
		{"on the reserve", throttle.State{Phase: throttle.PhaseReserve, Err: errCut}, up(), false},
		{"away", throttle.State{Phase: throttle.PhaseAway, Err: errCut}, up(), true},
		{"too slow", throttle.State{Phase: throttle.PhaseTooSlow}, up(), true},
		{"all slots late", throttle.State{Phase: throttle.PhaseRunning, Late: lateSlots}, up(), true},
		{"no answers", throttle.State{Phase: throttle.PhaseRunning}, down, true},
	} {
		if why := unfit(c.state, c.gate); (why != nil) != c.want {
			t.Errorf("%s: got %v, want unfit: %v", c.name, why, c.want)
		}
	}
}
