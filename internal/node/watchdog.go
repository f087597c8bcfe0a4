package node

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"dispatcher/consumer"
	"dispatcher/throttle"
)

const (
	leastLook, mostLook = 50 * time.Millisecond, time.Second // how often the watchdog looks
	askTimeout          = 5 * time.Second                    // for what Kafka knows of the others
	mostRests           = 3                                  // the rest doubles so often
)

// errProvider says that the provider does not answer this node.
var errProvider = errors.New("the provider does not answer this node")

// member is the consumer, to a watchdog.
type member interface {
	Status() consumer.Status
	PeerProgress(ctx context.Context) (consumer.PeerProgress, error)
	LeaveGroups(why error)
	RejoinGroups()
}

// watchdog gives a wedged node's partitions up: one that has had work and could
// not do any for so long, while others do theirs or have none. Where others have
// work and nobody does it, the trouble is not this node's, and to hand partitions
// round would help nobody.
type watchdog struct {
	member member
	unfit  func() error  // why the node can't work now; nil: it can
	after  time.Duration // 0: it does not look
	calls  time.Duration // a call that is under way when the trouble begins may still end so much later
	log    *slog.Logger
	rests  int  // rests in a row that ended without the node being fit
	vain   bool // in the last of them nobody else did anything
}

func (w *watchdog) run(ctx context.Context) {
	if w.after == 0 {
		return
	}
	look := time.NewTicker(min(max(w.after/20, leastLook), mostLook))
	defer look.Stop()
	for {
		why := w.awaitWedged(ctx, look.C)
		if why == nil {
			return
		}
		w.log.Warn("this node can't work and others can: it gives its partitions up", "why", why, "for", w.after)
		w.member.LeaveGroups(why)
		if !w.rest(ctx, look.C) {
			return
		}
		w.log.Info("this node asks for partitions again")
		w.member.RejoinGroups()
	}
}

// awaitWedged waits until the node is wedged, and returns why; nil: ctx ended.
func (w *watchdog) awaitWedged(ctx context.Context, look <-chan time.Time) error {
	var since time.Time // the node has been unfit; zero: it is not
	others := progress{watchdog: w}
	for tick(ctx, look) {
		why := w.unfit()
		if why == nil {
			w.rests, w.vain = 0, false
		}
		switch {
		case why == nil || !hasWork(w.member.Status()):
			since, others.at = time.Time{}, time.Time{}
			continue
		case since.IsZero():
			since = time.Now()
		}
		if time.Since(since) < w.patience() {
			continue
		}
		// What others do counts from here on: before, calls were still ending.
		if moved, idle, known := others.look(ctx); known && (moved || idle && !w.vain) {
			return why
		}
	}
	return nil
}

// patience is how long the node is unfit before it asks what the others do. One
// that has come back without being fit has shown before what it is.
func (w *watchdog) patience() time.Duration {
	if w.rests > 0 {
		return w.stretch()
	}
	return max(w.after-w.stretch(), w.calls)
}

// stretch is the time over which the others are watched.
func (w *watchdog) stretch() time.Duration { return w.after / 4 }

func hasWork(s consumer.Status) bool { return s.InFlight > 0 || s.Lag > 0 }

// rest waits until the node can work again, or has nothing to gain by standing
// aside; false: ctx ended. Whether the provider answers shows only in a call, so
// after a while one is due; and where others have work and don't do it either,
// this node is as good as they are.
func (w *watchdog) rest(ctx context.Context, look <-chan time.Time) bool {
	began, most := time.Now(), w.after<<min(w.rests, mostRests)
	others := progress{watchdog: w}
	stuck := began // nobody has done anything since
	w.vain = true
	for tick(ctx, look) {
		why := w.unfit()
		if why == nil {
			return true
		}
		moved, idle, known := others.look(ctx)
		if moved || idle {
			w.vain = false
		}
		if moved || idle || !known && others.at.IsZero() {
			stuck = time.Now()
		}
		if errors.Is(why, errProvider) && time.Since(began) >= most || time.Since(stuck) >= max(w.after, w.calls) {
			w.rests++
			return true
		}
	}
	return false
}

// progress compares what others have done, a stretch at a time.
type progress struct {
	*watchdog

	at   time.Time // of then; zero: not known
	then consumer.PeerProgress
}

// look tells, at the end of each stretch, whether others have done something in
// it, or have nothing to do; not known: it is not over, or they can't be asked.
func (p *progress) look(ctx context.Context) (moved, idle, known bool) {
	if !p.at.IsZero() && time.Since(p.at) < p.stretch() {
		return false, false, false
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	now, err := p.member.PeerProgress(ctx)
	if err != nil {
		p.log.Debug("can't ask what the others do", "error", err)
		p.at = time.Time{}
		return false, false, false
	}
	moved, idle, known = now.Moved(p.then), now.Idle() && p.then.Idle(), !p.at.IsZero()
	p.at, p.then = time.Now(), now
	return moved && known, idle && known, known
}

func tick(ctx context.Context, look <-chan time.Time) bool {
	select {
	case <-ctx.Done():
		return false
	case <-look:
		return true
	}
}

// unfit says why a node gets nothing done; nil: it can, or waits its turn.
func unfit(s throttle.State, g *gate) error {
	if err := s.Ready(); err != nil && s.Phase != throttle.PhaseReserve {
		return err
	}
	if !g.isUp() {
		return errProvider
	}
	return nil
}
