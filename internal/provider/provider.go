package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultGuard is the longest delay of this process that is no stall: the limiter's
// guard of 10 ms less 3 ms for lateness.
const DefaultGuard = 7 * time.Millisecond

// Options for [New]. The zero value accepts every call on a free port of the loopback.
type Options struct {
	Address   string        // host:port; default 127.0.0.1:0
	Behaviour Behaviour     // how it answers at first
	OneCall   bool          // a connection carries one call, and is closed with its answer
	Guard     time.Duration // a longer stall is recorded; default [DefaultGuard], negative: stalls are not watched

	// Answer answers instead of the behaviour if it is set. It is called from many
	// goroutines; n counts the arrivals from 0.
	Answer func(n int, key string) Answer
	// Listen opens the listener. Nil: TCP.
	Listen func(ctx context.Context, address string) (net.Listener, error)
}

// Provider is a simulated provider. Its methods may be called from any
// goroutine.
type Provider struct {
	opts   Options
	epoch  time.Time // all times of arrivals and stalls count from here
	log    arrivalLog
	watch  stallWatch
	script atomic.Pointer[script]
	asked  atomic.Int64 // calls of Options.Answer

	mu      sync.Mutex
	address string
	up      *service      // nil: down
	started chan *service // to Run; one slot, so that Up never waits for it
}

// New makes a provider that is down. Up and Run bring it up.
func New(o Options) *Provider {
	o.Address = cmp.Or(o.Address, "127.0.0.1:0")
	o.Guard = cmp.Or(o.Guard, DefaultGuard)
	if o.Listen == nil {
		o.Listen = func(ctx context.Context, address string) (net.Listener, error) {
			return new(net.ListenConfig).Listen(ctx, "tcp", address)
		}
	}
	p := &Provider{opts: o, epoch: time.Now(), address: o.Address, started: make(chan *service, 1)}
	p.Behave(o.Behaviour)
	return p
}

// Run serves until ctx ends, brings the provider up if it isn't, and returns
// when all its goroutines have ended. The error is that of the listener.
func (p *Provider) Run(ctx context.Context) error {
	if err := p.Up(ctx); err != nil && !errors.Is(err, errUp) {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer p.Down()
	if p.opts.Guard > 0 {
		wg.Go(func() { p.watch.run(ctx, p.epoch, p.opts.Guard) })
	}
	for {
		select {
		case s := <-p.started:
			wg.Go(func() { s.run(p) })
		case <-ctx.Done():
			return nil
		}
	}
}

var errUp = errors.New("provider: it is up already")

// Up listens, after Down on the same port as before. Connections are taken
// while Run runs; before that they wait in the kernel.
func (p *Provider) Up(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.up != nil {
		return errUp
	}
	l, err := p.opts.Listen(ctx, p.address)
	if err != nil {
		return fmt.Errorf("provider: listen on %s: %w", p.address, err)
	}
	p.address = l.Addr().String()
	p.up = &service{listener: l, conns: make(map[net.Conn]struct{})}
	p.up.ctx, p.up.cancel = context.WithCancel(context.Background())
	select {
	case <-p.started: // it went down before Run received it
	default:
	}
	p.started <- p.up
	return nil
}

// Down closes the listener and every connection, also those with a call in flight. It
// does nothing if the provider is down.
func (p *Provider) Down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.up != nil {
		p.up.close()
		p.up = nil
	}
}

// Addr is the address it listens on, or listened on when it was up: host:port.
func (p *Provider) Addr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.address
}

// IsUp reports whether it listens.
func (p *Provider) IsUp() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.up != nil
}

// Behave changes how calls are answered, from the next arrival on.
func (p *Provider) Behave(b Behaviour) {
	p.script.Store(&script{Behaviour: b})
}

// Reset forgets all arrivals and stalls. Their clock goes on.
func (p *Provider) Reset() {
	p.log.reset()
	p.watch.reset()
}

// Since converts a time to the clock of arrivals and stalls.
func (p *Provider) Since(t time.Time) time.Duration { return t.Sub(p.epoch) }

// Count is how many calls arrived.
func (p *Provider) Count() int { return p.log.count() }

// Recent is how many units arrived in the last d.
func (p *Provider) Recent(d time.Duration) int { return p.log.since(time.Since(p.epoch) - d) }

// Arrivals copies the arrivals in the order of recording, which may differ a little
// from that of their times.
func (p *Provider) Arrivals() []Arrival { return p.log.all() }

// Stalls copies the stalls of this process, in order of time.
func (p *Provider) Stalls() []Stall { return p.watch.all() }

// unsure are the stalls in which calls may have been recorded late: none where the kernel said when each call came.
func (p *Provider) unsure() []Stall {
	if !p.log.mayBeLate() {
		return nil
	}
	return p.Stalls()
}
