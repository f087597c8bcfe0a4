package schedule

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/order"
	"dispatcher/consumer/internal/sleepers"
	"dispatcher/consumer/internal/states"
	"dispatcher/consumer/internal/steps"
	"dispatcher/consumer/internal/timers"

	"golang.org/x/sys/cpu"
)

// Options configures a [Scheduler].
type Options struct {
	Lanes          []*Lane // in order of priority
	Order          order.Order
	RetryTopics    []time.Duration // their delays, rising
	JobTimeout     time.Duration   // in which a job that was taken is to be settled; 0: none
	BufferBytes    int             // about what all partitions may hold together, beside jobs that sleep
	MaxAsleep      int             // jobs that may sleep
	MaxAsleepBytes int
	Settler        Settler
	Log            *slog.Logger
}

// Settler writes the records that have to be in Kafka before a job is settled. Each method
// settles the job with [Settle] or [EndRecord].
type Settler interface {
	// Done writes the result, where results are written. It does not block.
	Done(d *Delivery, o Outcome)
	// Dead writes the result and the dead letter, after [BeginRecord]. It blocks until that is
	// done or given up.
	Dead(d *Delivery, f deadletter.Failure, o Outcome)
	// RetryLater writes the job to the retry topic of a delay, after [BeginRecord]. It blocks
	// likewise. false: the job is too large for the topic, and is not settled.
	RetryLater(d *Delivery, delay time.Duration, due time.Time, f deadletter.Failure) bool
}

// Scheduler makes jobs ready and hands them out. Its lock guards every offset tracker and
// queue.
type Scheduler struct {
	opts    Options
	log     steps.Log
	keys    order.Keys
	random  func(n int) int // below n; a test may choose
	ready   chan struct{}   // a job became ready; room for one, since a second notice says nothing new
	earlier chan struct{}   // KeepTime has to check again; likewise

	_ cpu.CacheLinePad // each hand-out writes what is below, and would delay fetchers, which read what is above for each record

	mu       sync.Mutex  // unlock releases it, and logs the steps; who notes none may unlock it itself
	steps    steps.Later // to be logged once the lock is free
	timers   timers.Queue[timer]
	sleepers sleepers.Bound          // jobs that sleep: each has a timer
	taken    map[*Delivery]time.Time // when the pacer took each job that may time out
	live     map[*Assignment]struct{}
	finished bool // ready is closed
}

// New makes a scheduler without assignments.
func New(o Options) *Scheduler {
	return &Scheduler{
		opts: o, log: steps.Log{Logger: o.Log}, keys: order.NewKeys(o.Order), random: rand.IntN, ready: make(chan struct{}, 1), earlier: make(chan struct{}, 1),
		sleepers: sleepers.Bound{MaxJobs: o.MaxAsleep, MaxBytes: o.MaxAsleepBytes},
		taken:    make(map[*Delivery]time.Time), live: make(map[*Assignment]struct{}),
	}
}

// unlock frees the lock, and logs the steps that were noted under it.
func (s *Scheduler) unlock() {
	noted := s.steps.Take()
	s.mu.Unlock()
	noted.Write(s.log)
}

// mostFilled is how many jobs one call of fill makes ready in a fair lane, at most: the lock is held
// meanwhile. Each job that is taken or settled calls it again.
const mostFilled = 256

// fill makes a lane's jobs ready while there is room, one a partition in turn: a full
// partition does not win over a slow one.
func (s *Scheduler) fill(l *Lane) {
	for filled := 0; l.room() && l.parts.Head() != nil && (!l.fair || filled < mostFilled); filled++ {
		p := l.delist()
		if p.asg.phase != working {
			continue
		}
		d, fresh := p.take()
		p.wakeFetcher()
		if d == nil {
			continue
		}
		l.enlist(p)
		d.on(states.Enqueue)
		s.put(l, d, fresh)
	}
}

// fillAll fills every lane. A lane that lists no partition costs next to nothing.
func (s *Scheduler) fillAll() {
	for _, l := range s.opts.Lanes {
		s.fill(l)
	}
}

// Ready gets a notice when a lane gets its first job to take. After [Scheduler.TakeFrom] has found none, there
// will be one as soon as there is a job. Finish closes it.
func (s *Scheduler) Ready() <-chan struct{} { return s.ready }

// Take hands out the best job that is ready; nil: none is. It is of the first lane that has
// one. A job whose not-after has passed goes to the dead letters instead.
func (s *Scheduler) Take() *Delivery {
	s.mu.Lock()
	defer s.unlock()
	return s.takeBest()
}

// SetWeights gives tenants of fair lanes other weights, which act on the jobs that wait already. All others
// have the weight 1.
func (s *Scheduler) SetWeights(weights map[string]float64) {
	s.mu.Lock()
	defer s.unlock()
	for _, l := range s.opts.Lanes {
		if l.fair {
			l.ready.SetWeights(weights)
		}
	}
}

// TakeFrom hands out the best job of a lane, counted from 0.
func (s *Scheduler) TakeFrom(lane int) *Delivery {
	s.mu.Lock()
	defer s.unlock()
	return s.takeFrom(s.opts.Lanes[lane])
}

func (s *Scheduler) takeBest() *Delivery {
	for _, l := range s.opts.Lanes {
		if d := s.takeFrom(l); d != nil {
			return d
		}
	}
	return nil
}

func (s *Scheduler) takeFrom(l *Lane) *Delivery {
	for l.takeable() > 0 {
		d := l.pop()
		if !d.expired() {
			s.handOut(d)
			if l.fair {
				s.fill(l)
			}
			return d
		}
		d.part.divertExpired(d)
		s.fill(l)
	}
	return nil
}

// TakeSample hands out any fetched job, one that has not slept if there is one: its call tells more
// about the provider than that of a job which has failed. Where there is none, it is
// [Scheduler.Take].
func (s *Scheduler) TakeSample() *Delivery {
	s.mu.Lock()
	defer s.unlock()
	if parts := s.withFresh(); len(parts) > 0 {
		p := parts[s.random(len(parts))]
		d := p.sample()
		p.src.Lane.enlist(p)
		p.wakeFetcher()
		if d != nil && !d.expired() {
			d.on(states.Enqueue)
			return s.handOut(d)
		}
		if d != nil {
			p.divertExpired(d)
		}
	}
	for _, l := range s.opts.Lanes {
		if d := l.popFresh(); d != nil {
			return s.handOut(d)
		}
	}
	return s.takeBest()
}

// withFresh are the partitions, without those of retry topics, that have jobs which are not
// ready yet.
func (s *Scheduler) withFresh() (parts []*Partition) {
	for a := range s.live {
		for _, p := range a.parts {
			if p.src.Delay == 0 && a.phase == working && (p.freed.Head() != nil || p.buffer.Head() != nil) {
				parts = append(parts, p)
			}
		}
	}
	return parts
}

// handOut notes that the pacer has taken the job, for a worker.
func (s *Scheduler) handOut(d *Delivery) *Delivery {
	d.on(states.HandOut)
	d.endWait()
	d.part.src.Lane.inFlight++
	d.part.inFlight++
	d.part.asg.awaited++
	if s.opts.JobTimeout > 0 {
		s.taken[d] = time.Now()
	}
	return d
}

// PutBack takes hand-outs back, the last ones, in their order: there is no slot for the
// jobs. They go next again in their lanes. Those of an assignment that drains are released.
func (s *Scheduler) PutBack(jobs []*Delivery) {
	s.mu.Lock()
	defer s.unlock()
	for _, d := range slices.Backward(jobs) {
		s.handBack(d, func(p *Partition) {
			if !p.src.Lane.room() { // a sample has no place there
				p.requeue(d)
				return
			}
			d.on(states.PutBack)
			s.putFront(p.src.Lane, d)
		})
	}
}

// ReadyJobs is how many jobs can be taken.
func (s *Scheduler) ReadyJobs() (n int) {
	s.mu.Lock()
	defer s.unlock()
	for _, l := range s.opts.Lanes {
		n += l.takeable()
	}
	return n
}

// ReadyLanes are the lanes that have jobs to take: bit n stands for lane n.
func (s *Scheduler) ReadyLanes() (lanes uint16) {
	s.mu.Lock()
	defer s.unlock()
	for n, l := range s.opts.Lanes {
		if l.takeable() > 0 {
			lanes |= 1 << n
		}
	}
	return lanes
}

// Finish closes Ready. All assignments are over by then, so no job becomes ready any more.
func (s *Scheduler) Finish() {
	s.mu.Lock()
	defer s.unlock()
	s.finished = true
	close(s.ready)
}

// notify puts a notice into a channel of room for one.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
