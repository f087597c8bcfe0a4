package schedule

import (
	"math"
	"time"
)

// Lane is a set of topics that share a priority, a limit of jobs in flight and a queue
// of jobs that are ready. The scheduler's lock guards it.
type Lane struct {
	name     string
	limit    int     // jobs ready and in flight, at most
	minShare float64 // least share of the hand-outs while a job is ready

	inFlight  int     // handed out; not settled, or a worker still has them
	ready     list    // in the order in which they are taken
	credit    float64 // hand-outs that the min share still owes
	completed meter   // offsets

	first *Partition // queue of partitions that may have a job to make ready
	last  *Partition
}

// NewLane makes a lane of so many jobs ready and in flight.
func NewLane(name string, limit int, minShare float64) *Lane {
	return &Lane{name: name, limit: limit, minShare: minShare}
}

// Name is what the lane is called.
func (l *Lane) Name() string { return l.name }

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

// pick chooses the lane whose job goes next; nil: no lane has one. The first lane with a
// job wins, unless another lane's min share is owed a whole hand-out. A lane that has
// nothing ready is owed nothing for that time.
func pick(lanes []*Lane) (l *Lane, b bill) {
	var first, owed *Lane
	for i, l := range lanes {
		if l.ready.jobs == 0 {
			continue
		}
		if first == nil {
			first = l
		}
		b.earned |= 1 << i
		if l.credit += l.minShare; l.credit >= 1 && (owed == nil || l.credit > owed.credit) {
			owed = l
		}
	}
	if owed == nil {
		owed = first
	}
	if owed != nil {
		b.spent = min(owed.credit, 1)
		owed.credit -= b.spent
	}
	return owed, b
}

// bill is what a hand-out changed of the lanes' credits, so that it can be taken back.
type bill struct {
	earned uint16  // a bit for each lane that had a job ready, the first lane's the lowest
	spent  float64 // by the lane that was chosen
}

// takeBack takes the last hand-out back that has not been taken back yet. l was chosen.
func (b bill) takeBack(lanes []*Lane, l *Lane) {
	l.credit += b.spent
	for i, l := range lanes {
		if b.earned&(1<<i) != 0 {
			l.credit -= l.minShare
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
