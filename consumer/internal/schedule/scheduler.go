package schedule

import (
	"log/slog"
	"sync"
	"time"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/offsets"
)

// Options configures a [Scheduler].
type Options struct {
	Lanes          []*Lane // in order of priority
	Order          Order
	RetryTopics    []time.Duration // their delays, rising
	JobTimeout     time.Duration   // how long a worker may have a job; 0: for ever
	BufferBytes    int             // about what all partitions may hold together
	MaxAsleep      int             // jobs that may sleep
	MaxAsleepBytes int
	Log            *slog.Logger
}

// Settler writes what has to be written before a job is settled.
type Settler interface {
	// Done answers once the job's result is written, where results are. It does not block.
	Done(d *Delivery, o Outcome)
	// Dead writes the result and the dead letter of a job that is claimed. It blocks until
	// that is done or given up.
	Dead(d *Delivery, f deadletter.Failure, o Outcome)
	// RetryLater writes the job to the retry topic of a delay. false: it is too large.
	RetryLater(d *Delivery, delay time.Duration, due time.Time, f deadletter.Failure) bool
}

// Scheduler makes jobs ready, hands them out and settles them. Its lock guards every
// offset tracker and queue.
type Scheduler struct {
	opts    Options
	settler Settler
	ready   chan struct{} // a job became ready; one slot, since a second notice says nothing new

	mu          sync.Mutex
	timers      *timers
	asleep      int // jobs that sleep: each has a timer
	asleepBytes int
	toldFull    bool                    // the log says that as many jobs sleep as may
	taken       map[*Delivery]time.Time // when each job in flight was taken, with a job timeout
	live        map[*Assignment]struct{}
	finished    bool // ready is closed
}

// New makes a scheduler. UseSettler comes before the first job.
func New(o Options) *Scheduler {
	return &Scheduler{
		opts: o, ready: make(chan struct{}, 1), timers: newTimers(),
		taken: make(map[*Delivery]time.Time), live: make(map[*Assignment]struct{}),
	}
}

// UseSettler says who writes what settles jobs.
func (s *Scheduler) UseSettler(w Settler) { s.settler = w }

// Batch is what one fetch of a partition brought.
type Batch struct {
	Jobs   []Delivery // in the order of their offsets; each went through [Prepare]
	Bytes  int
	Next   int64 // where the following fetch begins
	Stable int64 // the log's last stable offset
	Gap    bool  // the log does not begin where it was asked to
}

// Prepared is what is known of a fetched job, beside the job itself.
type Prepared struct {
	Key       uint64    // of its key queue; 0: none
	Size      int       // bytes in memory
	Due       time.Time // not handed out before; zero: at once
	LookAt    time.Time // of a retry topic's record: not looked at before
	Attempts  offsets.Attempts
	Rejection *Rejection // nil: a worker may have it
}

// Prepare sets up a delivery that was fetched, whose Job is there already.
func Prepare(d *Delivery, p *Partition, about Prepared) {
	d.part, d.key, d.size, d.attempts, d.rejection = p, about.Key, about.Size, about.Attempts, about.Rejection
	if !about.Due.IsZero() || !about.LookAt.IsZero() {
		d.times = &times{due: about.Due, lookAt: about.LookAt}
	}
}

// Add takes in what was fetched. It returns whether there is room for more.
func (s *Scheduler) Add(p *Partition, b *Batch) bool {
	s.logFetched(b.Jobs)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.asg.draining {
		return false
	}
	if b.Gap && p.tracker.End() == p.tracker.Low() {
		p.tracker.DropRestored()
	}
	for i := range b.Jobs {
		p.buffer.push(&b.Jobs[i])
	}
	p.count += len(b.Jobs)
	p.bytes += b.Bytes
	p.fetched, p.stable = b.Next, b.Stable
	if p.buffer.head == nil {
		p.tracker.SkipTo(p.fetched)
	}
	p.src.Lane.enlist(p)
	s.fill(p.src.Lane)
	p.fullBuffer = !p.room()
	return !p.fullBuffer
}

// fill makes a lane's jobs ready while there is room, one a partition in turn: a full
// partition does not win over a slow one.
func (s *Scheduler) fill(l *Lane) {
	moved := false
	for l.room() && l.first != nil {
		p := l.delist()
		if p.asg.draining {
			continue
		}
		d := p.take()
		p.wakeFetcher()
		if d == nil {
			continue
		}
		l.enlist(p)
		d.on(enqueue)
		l.push(d)
		moved = true
	}
	if moved && !s.finished {
		notify(s.ready)
	}
}

// Ready gets a notice when jobs have become ready, at least one after [Scheduler.Take] last
// found none. It is closed by Finish.
func (s *Scheduler) Ready() <-chan struct{} { return s.ready }

// Take hands out the best job that is ready; nil: none is. A job whose not-after has passed
// goes to the dead letters instead.
func (s *Scheduler) Take() *Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takeBest()
}

func (s *Scheduler) takeBest() *Delivery {
	for {
		l := pick(s.opts.Lanes)
		if l == nil {
			return nil
		}
		d := l.pop()
		if d.expired() {
			d.part.reject(d, d.expiry())
			s.fill(l)
			continue
		}
		return s.handOut(d)
	}
}

// handOut notes that a worker has the job.
func (s *Scheduler) handOut(d *Delivery) *Delivery {
	d.on(handOut)
	d.part.src.Lane.inFlight++
	d.part.taken++
	d.part.asg.inFlight++
	if s.opts.JobTimeout > 0 {
		s.taken[d] = time.Now()
	}
	return d
}

// Waiting is how many jobs are ready.
func (s *Scheduler) Waiting() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.opts.Lanes {
		n += l.count
	}
	return n
}

// Open lets partitions of an assignment take part; false: it is ending.
func (s *Scheduler) Open(a *Assignment, parts []*Partition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.draining {
		return false
	}
	s.live[a] = struct{}{}
	a.parts = append(a.parts, parts...)
	return true
}

// Drain drops what was not handed out, also what is ready. The assignment is idle once
// everything in flight has been settled. A second call has no effect.
func (s *Scheduler) Drain(a *Assignment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.draining {
		return
	}
	a.draining = true
	a.inFlight -= len(a.rejected)
	a.rejected = nil
	for _, p := range a.parts {
		p.drop()
	}
	for _, t := range s.timers.remove(func(t timer) bool { return t.part.asg == a }) {
		if t.d != nil {
			s.wokeUp(t.d)
		}
	}
	for _, l := range s.opts.Lanes {
		l.drop(a)
		s.fill(l) // the room is for others
	}
	if a.inFlight == 0 {
		close(a.idle)
	}
}

// Close ends an assignment: no offset is completed after it. It returns the last offsets
// to commit, and how many partitions there were.
func (s *Scheduler) Close(a *Assignment) (last []CommitPoint, partitions int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.closed = true
	delete(s.live, a)
	return a.uncommitted(), len(a.parts)
}

// Finish lets the taker go. All assignments are over by then, so no job becomes ready any
// more.
func (s *Scheduler) Finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
	close(s.ready)
}

// Places are the partitions that this node works, by topic.
func (s *Scheduler) Places() map[string]map[int]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]map[int]bool)
	for a := range s.live {
		for _, p := range a.parts {
			if all[p.src.Topic] == nil {
				all[p.src.Topic] = make(map[int]bool)
			}
			all[p.src.Topic][p.id] = true
		}
	}
	return all
}
