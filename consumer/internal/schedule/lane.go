package schedule

import (
	"math"
	"time"
)

// Lane is a set of topics that share a priority, a limit of jobs in flight and a queue
// of jobs that are ready. The scheduler's lock guards it.
type Lane struct {
	name  string
	limit int // jobs ready and in flight, at most

	inFlight  int   // handed out; not settled, or a worker still has them
	ready     list  // in the order in which they are taken
	completed meter // offsets

	first *Partition // queue of partitions that may have a job to make ready
	last  *Partition
}

// NewLane makes a lane of so many jobs ready and in flight.
func NewLane(name string, limit int) *Lane { return &Lane{name: name, limit: limit} }

// Name is what the lane is called.
func (l *Lane) Name() string { return l.name }

// put makes a job of the lane ready, behind the others or in front of them. A caller that waits
// for jobs of other lanes gets a notice where this one had none.
func (s *Scheduler) put(l *Lane, d *Delivery, front bool) {
	if l.ready.jobs == 0 && !s.finished {
		notify(s.ready)
	}
	if front {
		l.ready.pushFront(d)
	} else {
		l.ready.push(d)
	}
}

// room tells whether one more job may be made ready.
func (l *Lane) room() bool { return l.inFlight+l.ready.jobs < l.limit }

// enlist queues a partition that may have a job to make ready.
func (l *Lane) enlist(p *Partition) {
	if p.listed || p.asg.phase != working || !p.hasSome() {
		return
	}
	p.listed, p.after = true, nil
	if l.last == nil {
		l.first = p
	} else {
		l.last.after = p
	}
	l.last = p
}

func (l *Lane) delist() *Partition {
	p := l.first
	if l.first = p.after; l.first == nil {
		l.last = nil
	}
	p.listed, p.after = false, nil
	return p
}

// drop takes an assignment's jobs out of the queue.
func (l *Lane) drop(a *Assignment) {
	all := l.ready
	l.ready = list{}
	for all.head != nil {
		if d := all.pop(); d.part.asg != a {
			l.ready.push(d)
		}
	}
}

// meterSpan is how far back a meter looks: an event that long ago counts a third.
const meterSpan = 30 * time.Second

// meter is a rate as an exponentially weighted average. The scheduler's lock guards it.
type meter struct {
	rate float64 // a second, as of at
	at   time.Time
}

// tick counts one.
func (m *meter) tick(now time.Time) {
	m.rate, m.at = m.perSecond(now)+1/meterSpan.Seconds(), now
}

// perSecond is the rate now.
func (m *meter) perSecond(now time.Time) float64 {
	if m.rate == 0 {
		return 0
	}
	return m.rate * math.Exp(-now.Sub(m.at).Seconds()/meterSpan.Seconds())
}
