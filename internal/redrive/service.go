package redrive

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"dispatcher/internal/clip"
	"dispatcher/internal/wait"
)

const (
	writeEvery  = time.Second
	callTimeout = time.Second
	unseenAfter = LostAfter - 2*time.Second // then nobody could stop the run, and the node does
	endWithin   = 5 * time.Second           // for the last write of a run
	batchWithin = 10 * time.Second          // for a batch that is being written when the node ends
)

// Options of a [Service]; all are required.
type Options struct {
	Store  *Store
	Runner Runner
	Node   string // its name
	Logger *slog.Logger
}

// Service starts runs, and carries them out on this node, one at a time. Make it with [New]; it can be run once.
type Service struct {
	*Store

	run  Runner
	node string
	log  *slog.Logger
	work chan work // to Run; one slot, since there is one run at a time, so that Start never waits

	mu   sync.Mutex
	busy *Run // nil: there is no run
	over bool // Run has ended, or is about to
}

// work is a run to carry out.
type work struct {
	Run

	request Request
	began   time.Time // by this node's clock, at Run.Started
}

// New makes a service. It asks nothing yet.
func New(o Options) *Service {
	return &Service{Store: o.Store, run: o.Runner, node: o.Node, log: o.Logger, work: make(chan work, 1)}
}

// Start starts a run on this node, and returns at once. It returns [RunningError] where the node or the topic has one.
func (s *Service) Start(ctx context.Context, r Request) (Run, error) {
	if err := r.Validate(); err != nil {
		return Run{}, err
	}
	if err := s.take(); err != nil {
		return Run{}, err
	}
	w := work{request: r, began: time.Now()}
	var err error
	if w.Run, err = s.start(ctx, r.begun(s.node)); err != nil {
		s.free()
		return Run{}, err
	}
	if !s.hand(w) {
		w.State, w.Error = Stopped, ErrEnds.Error()
		s.end(ctx, &w, s.byNode())
		return Run{}, ErrEnds
	}
	return w.Run, nil
}

// take makes this node busy, if it is not.
func (s *Service) take() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return ErrEnds
	case s.busy != nil:
		return &RunningError{*s.busy}
	}
	s.busy = &Run{}
	return nil
}

// hand gives a run to [Service.Run]. It returns false where that has ended.
func (s *Service) hand(w work) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	s.busy = &w.Run
	s.work <- w // has room: nobody else is busy
	return true
}

func (s *Service) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = nil
}

func (s *Service) byNode() string { return "node " + s.node }

// Run carries out the runs that [Service.Start] starts, until ctx ends. A run that goes on then is stopped between two batches.
// It returns nil.
func (s *Service) Run(ctx context.Context) error {
	for {
		select {
		case w := <-s.work:
			s.carryOut(ctx, &w)
			s.free()
		case <-ctx.Done():
			s.mu.Lock()
			s.over = true
			s.mu.Unlock()
			select {
			case w := <-s.work: // was handed over last
				s.carryOut(ctx, &w)
			default:
			}
			return nil
		}
	}
}

// Causes for which a run ends early.
var (
	errStop   = errors.New("an operator asked for it")
	errUnseen = errors.New("the run could not be written to Redis, so nobody could have stopped it")
	errBatch  = errors.New("the node ended while Kafka did not acknowledge a batch")
)

// outcome is how a runner ended.
type outcome struct {
	Progress

	err error
}

// carryOut settles the letters of a run, and writes meanwhile how far it is.
func (s *Service) carryOut(ctx context.Context, w *work) {
	s.log.Info("a redrive has begun", "redrive", w.ID, "kind", string(w.Kind), "topic", w.Topic, "by", w.By, "why", w.Why)
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var now atomic.Pointer[Progress]
	ended := make(chan outcome, 1) // room for one: the runner ends also where nobody waits for it any more
	go func() {
		p, err := s.run(working, w.request, func(p Progress) { now.Store(&p) })
		ended <- outcome{p, err}
	}()
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	seen := w.began
	var giveUp <-chan time.Time
	ending := ctx.Done()
	for {
		select {
		case o := <-ended:
			w.Progress = o.Progress
			s.conclude(ctx, w, o.err, context.Cause(working))
			return
		case <-ending:
			ending = nil
			timer := time.NewTimer(batchWithin)
			defer timer.Stop()
			giveUp = timer.C
		case <-giveUp:
			s.conclude(ctx, w, errBatch, context.Cause(working))
			return
		case <-tick.C:
			if p := now.Load(); p != nil {
				w.Progress = *p
			}
			if time.Since(seen) > unseenAfter { // also where Redis is back by now: the run was shown as lost
				stop(errUnseen)
			} else if s.note(ctx, w, stop) {
				seen = time.Now()
			}
		}
	}
}

// note writes how far a run is, and stops it where an operator asked for that. It returns false where Redis does not answer.
func (s *Service) note(ctx context.Context, w *work, stop context.CancelCauseFunc) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	asked, err := s.save(ctx, w.Run, "", "")
	if err != nil {
		s.log.Warn("the progress of a redrive could not be written to redis", "redrive", w.ID, "error", err)
		return false
	}
	if asked != nil && w.StoppedBy == "" {
		w.StoppedBy = asked.By
		stop(errStop)
	}
	return true
}

// conclude writes how a run ended. cause is why it was interrupted; nil: it was not.
func (s *Service) conclude(ctx context.Context, w *work, err, cause error) {
	by := w.By
	switch {
	case err == nil:
		w.State = Done
	case errors.Is(cause, errStop):
		w.State, by = Stopped, w.StoppedBy
		if !errors.Is(err, context.Canceled) {
			w.Error = clip.Text(err.Error(), mostError)
		}
	case errors.Is(cause, errUnseen):
		w.State, w.Error = Failed, errUnseen.Error()
	case cause != nil: // ctx ended
		w.State, w.Error, by = Stopped, "its node ended", s.byNode()
		if errors.Is(err, errBatch) {
			w.Error = errBatch.Error()
		}
	default:
		w.State, w.Error = Failed, clip.Text(err.Error(), mostError)
	}
	s.end(ctx, w, by)
}

// end writes the last state of a run. A write that fails is tried again for a while: without it the run is shown as lost.
func (s *Service) end(ctx context.Context, w *work, by string) {
	w.Ended = w.Started.Add(time.Since(w.began)).Truncate(time.Microsecond)
	s.log.Info("a redrive has ended", "redrive", w.ID, "state", string(w.State), "matched", w.Matched, "done", w.Done, "left", w.Left, "by", by, "error", w.Error)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	for n := 0; ; n++ {
		once, cancel := context.WithTimeout(ctx, callTimeout)
		_, err := s.save(once, w.Run, w.endText(), by)
		cancel()
		if err == nil {
			return
		}
		if !wait.For(ctx, wait.Backoff(n, 50*time.Millisecond, time.Second)) {
			s.log.Error("the end of a redrive could not be written to redis, and it is shown as lost", "redrive", w.ID, "error", err)
			return
		}
	}
}
