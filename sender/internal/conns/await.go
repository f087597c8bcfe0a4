package conns

import (
	"context"
	"time"
)

// Prepare reports whether an idle connection is there. It begins the dials that the
// demand needs, and doesn't wait for them. After a dial that failed it begins none for a while.
func (p *Pool) Prepare(d Demand) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	now := time.Now()
	ready := p.trimLocked(now)
	if !p.spares.failing(now) {
		p.spares.lacked(d)
		p.dialLocked(d)
	}
	return ready
}

// Await waits until an idle connection is there, and has the pool dial meanwhile as
// many as the demand needs. It returns the context's cause when that ends first, and
// else why a connection could not be opened. Each dial that fails while no connection
// is open is returned once. While some are in use, the provider takes no more of them: Await
// waits for one to come back, and dials again after [FailureLasts].
func (p *Pool) Await(ctx context.Context, d Demand) error {
	begin := time.Now()
	timer := time.NewTimer(d.tick())
	defer timer.Stop()
	for from, to := time.Duration(0), time.Duration(0); ; from, to = to, time.Since(begin) {
		if ready, err := p.check(d, from, to); ready || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.progress:
		case <-timer.C:
			timer.Reset(d.tick())
		}
	}
}

// check begins the missing dials, for a caller whose wait went on from one time to
// another. It reports whether there is an idle connection or, if not, an error.
func (p *Pool) check(d Demand, from, to time.Duration) (ready bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false, ErrClosed
	}
	now := time.Now()
	ready = p.trimLocked(now)
	if len(p.open) == 0 {
		if err = p.spares.failure(now); err != nil {
			return false, err
		}
	}
	if !p.spares.failing(now) {
		p.spares.waited(from, to, d)
		p.dialLocked(d)
	}
	return ready, nil
}

// dialLocked begins the dials that are missing.
func (p *Pool) dialLocked(d Demand) {
	for range p.spares.missing(d, len(p.idle)) {
		p.spares.dialing++
		p.ahead.Go(p.dialAhead)
	}
}

// notify wakes one caller of Await, or the next one.
func (p *Pool) notify() {
	select {
	case p.progress <- struct{}{}:
	default:
	}
}

// dialAhead opens one connection for whoever takes it.
func (p *Pool) dialAhead() {
	c, err := p.Dial(p.ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spares.dialed(err, time.Now())
	switch {
	case err != nil:
	case p.closed:
		p.removeLocked(c)
	default:
		p.pushLocked(c)
	}
	p.notify()
}
