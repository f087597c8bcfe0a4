package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"dispatcher/consumer"
	"dispatcher/throttle"
)

const (
	// lateSlots is how many slots in a row come too late before a node counts as
	// too slow. One stall may spoil more; the next slot is used then.
	lateSlots = 10

	leastLook, mostLook = 50 * time.Millisecond, time.Second // how often the watchdog looks
	askTimeout          = 5 * time.Second                    // for what Kafka knows of the others
	mostRests           = 3                                  // the rest doubles so often
)

// errProvider says that the provider does not answer this node.
var errProvider = errors.New("the provider does not answer this node")

// member is the consumer, to a watchdog.
type member interface {
	Status() consumer.Status
	Elsewhere(ctx context.Context) (consumer.Elsewhere, error)
	StandAside(why error)
	TakePart()
}

// watchdog gives a wedged node's partitions up: one that has had work and could
// not do any for so long, while others did theirs. Where nobody does, the trouble
// is not this node's, and to hand partitions round would help nobody.
type watchdog struct {
	member member
	unfit  func() error  // why the node can't work now; nil: it can
	after  time.Duration // 0: it does not look
	log    *slog.Logger
	rests  int // rests in a row that ended with a probe only
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
		w.member.StandAside(why)
		if !w.rest(ctx, look.C) {
			return
		}
		w.log.Info("this node asks for partitions again")
		w.member.TakePart()
	}
}

// awaitWedged waits until the node is wedged, and returns why; nil: ctx ended.
func (w *watchdog) awaitWedged(ctx context.Context, look <-chan time.Time) error {
	var since time.Time // the node has been unfit; zero: it is not, or the others are not known yet
	var then consumer.Elsewhere
	for tick(ctx, look) {
		why := w.unfit()
		if why == nil {
			w.rests = 0
		}
		if why == nil || !hasWork(w.member.Status()) {
			since = time.Time{}
			continue
		}
		if !since.IsZero() && time.Since(since) < w.after {
			continue
		}
		now, err := w.ask(ctx)
		switch {
		case err != nil:
			w.log.Debug("can't ask what the others do", "error", err)
			continue
		case !since.IsZero() && now.Could(then):
			return why
		}
		since, then = time.Now(), now
	}
	return nil
}

func (w *watchdog) ask(ctx context.Context) (consumer.Elsewhere, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return w.member.Elsewhere(ctx)
}

func hasWork(s consumer.Status) bool { return s.InHand > 0 || s.Lag > 0 }

// rest waits until the node can work again; false: ctx ended. Whether the
// provider answers shows only in a call, so after a while one is due.
func (w *watchdog) rest(ctx context.Context, look <-chan time.Time) bool {
	began, most := time.Now(), w.after<<min(w.rests, mostRests)
	for tick(ctx, look) {
		why := w.unfit()
		if why == nil {
			return true
		}
		if !errors.Is(why, errProvider) {
			began = time.Now()
		}
		if time.Since(began) >= most {
			w.rests++
			return true
		}
	}
	return false
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
	switch err := s.Ready(); {
	case err != nil && s.Phase != throttle.PhaseReserve:
		return err
	case !g.isUp():
		return errProvider
	case s.Late >= lateSlots:
		return fmt.Errorf("its last %d slots all came too late", s.Late)
	}
	return nil
}
