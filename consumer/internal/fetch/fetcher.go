package fetch

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"dispatcher/consumer/internal/batches"
	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/health"
	"dispatcher/consumer/internal/offsets"
	"dispatcher/consumer/internal/schedule"
	"dispatcher/internal/wait"
	"dispatcher/job"

	"github.com/segmentio/kafka-go"
)

const (
	// answerBytes bounds an answer about several partitions.
	answerBytes = 1 << 20

	// Patience is how long a partition may fail before the log warns of it: a change of
	// leaders is mostly over by then.
	Patience = 500 * time.Millisecond

	// A partition that fails is fetched again after so long at most. A batch that is too large takes time and memory to find
	// out, and stays so.
	againWithin      = time.Second
	largeAgainWithin = time.Minute

	// After a long poll the next one waits so long, and longer the more partitions the
	// assignment has. Otherwise each record that comes would cost a request about all of them.
	pollGap     = time.Millisecond
	pollGapEach = 25 * time.Microsecond

	// The node's budget of bytes is checked at most so often, or after so many bytes. While
	// it is used up, it is also checked after scarceCheck without any other event.
	budgetCheck      = 5 * time.Millisecond
	budgetCheckBytes = answerBytes / 2
	scarceCheck      = 20 * time.Millisecond
)

// requestKind is a long poll, for partitions whose records have all been read, or a plain
// read, for those with more. A broker gets at most mostRequests of each kind at once: with
// only one, a partition that has just been read to its end, or has room again, would wait
// for the long poll under way.
type requestKind int

const (
	longPoll requestKind = iota
	plainRead
	requestKinds
)

const mostRequests = 2

// Options configures a [Fetcher].
type Options struct {
	Assignment *schedule.Assignment
	Source     *schedule.Source
	Client     *broker.Client
	Health     *health.Health
	Log        *slog.Logger

	Limits     job.Limits // of its jobs
	OutOfRange offsets.OutOfRange

	LeaderMoved func()      // called when another broker may lead a partition by now
	Rejoin      func()      // called when the log ends before the offset that was reached
	Refuse      func(error) // ends the consumer with an error
}

// Fetcher fetches the partitions of an assignment. The goroutine of Run chooses the
// partitions of each request; the goroutine of the request gives the records of the answer
// to the scheduler.
type Fetcher struct {
	o       Options
	answers chan answer
	running sync.WaitGroup // requests

	// Owned by the goroutine of Run.
	order   []*reading // requests name partitions in this order; those served last are the last
	byID    map[int]*reading
	leaders map[int]string // broker by partition
	brokers map[string]*brokerLoad
	scarce  bool      // the node's budget is used up
	checked time.Time // the budget
	fetched int       // bytes since then

	mu      sync.Mutex // guards the fields that other goroutines set
	added   []*schedule.Partition
	learned map[int]string
}

// reading is how far a partition has been fetched. While it is busy it belongs to its
// request.
type reading struct {
	p      *schedule.Partition
	at     int64 // the next offset to ask for
	stable int64 // last stable offset that the scheduler knows
	limit  int32 // bytes to ask for
	behind bool  // there is more to read
	busy   bool  // in a request
	full   bool  // no room in its buffer
	roomy  bool  // there was room again while it was busy
	served bool  // got records since the order was last made
	faults int
	after  time.Time // not fetched before
}

// brokerLoad is what one broker has to answer.
type brokerLoad struct {
	underWay [requestKinds]int
	wanted   [requestKinds][]*reading
	next     time.Time // the next long poll, not before
	until    time.Time // when the first of the long polls under way ends
}

// New makes a fetcher without partitions.
func New(o Options) *Fetcher {
	return &Fetcher{
		o: o, answers: make(chan answer), byID: make(map[int]*reading), brokers: make(map[string]*brokerLoad),
	}
}

// Add adds a partition. Any goroutine may call it.
func (f *Fetcher) Add(p *schedule.Partition) {
	f.mu.Lock()
	f.added = append(f.added, p)
	f.mu.Unlock()
	f.o.Assignment.WakeFetcher()
}

// UseLeaders sets the address of each partition's leader. Any goroutine may call it.
func (f *Fetcher) UseLeaders(leaders map[int]string) {
	f.mu.Lock()
	f.learned = leaders
	f.mu.Unlock()
	f.o.Assignment.WakeFetcher()
}

// Run fetches while there is room, until the assignment ends. No fault of the network ends
// it: that would end the generation.
func (f *Fetcher) Run() {
	defer f.running.Wait()
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		t.Reset(time.Until(f.send(time.Now())))
		select {
		case <-f.o.Assignment.Context().Done():
			return
		case <-f.o.Assignment.News():
			f.collect(time.Now())
		case a := <-f.answers:
			f.note(a, time.Now())
		case <-t.C:
		}
	}
}

// collect takes over new partitions, new leaders, and the partitions that have room again.
func (f *Fetcher) collect(now time.Time) {
	f.mu.Lock()
	added, learned := f.added, f.learned
	f.added, f.learned = nil, nil
	f.mu.Unlock()
	for _, p := range added {
		at, stable := p.Begin()
		r := &reading{p: p, at: at, stable: stable, limit: broker.FetchBytes, behind: at < stable}
		f.order = append(f.order, r)
		f.byID[p.ID()] = r
	}
	if learned != nil {
		f.follow(learned, now)
	}
	for _, p := range f.o.Assignment.Roomy() {
		r := f.byID[p.ID()]
		r.full, r.roomy = false, r.busy
	}
}

// follow takes over the leaders. A partition that has moved is fetched at once.
func (f *Fetcher) follow(leaders map[int]string, now time.Time) {
	for _, r := range f.order {
		if leaders[r.p.ID()] != f.leaders[r.p.ID()] {
			r.after = now
		}
	}
	f.leaders = leaders
	for addr, b := range f.brokers {
		if b.underWay == [requestKinds]int{} && !leads(leaders, addr) {
			delete(f.brokers, addr)
		}
	}
}

func leads(leaders map[int]string, addr string) bool {
	for _, a := range leaders {
		if a == addr {
			return true
		}
	}
	return false
}

// send makes all requests that can be made now. It returns when to call it again though
// nothing else happens.
func (f *Fetcher) send(now time.Time) (again time.Time) {
	again = f.checkBudget(now)
	f.rotate()
	for _, r := range f.order {
		switch {
		case r.busy || r.full || r.p.OverShare():
		case r.after.After(now):
			again = earlier(again, r.after)
		case f.leaders[r.p.ID()] == "":
			f.failed([]*reading{r}, fmt.Errorf("fetch: %w", kafka.LeaderNotAvailable), now)
			again = earlier(again, r.after)
		default:
			f.want(r)
		}
	}
	for addr, b := range f.brokers {
		for i, all := range b.wanted {
			kind := requestKind(i)
			switch {
			case len(all) == 0 || b.underWay[kind] == mostRequests:
			case kind == longPoll && b.next.After(now):
				again = earlier(again, b.next)
			default:
				f.request(addr, b, kind, all, now)
			}
			b.wanted[kind] = all[:0]
		}
	}
	return again
}

// want adds a partition to its broker's next request.
func (f *Fetcher) want(r *reading) {
	addr := f.leaders[r.p.ID()]
	b := f.brokers[addr]
	if b == nil {
		b = &brokerLoad{}
		f.brokers[addr] = b
	}
	kind := longPoll
	if r.behind {
		kind = plainRead
	}
	b.wanted[kind] = append(b.wanted[kind], r)
}

// rotate moves the partitions that got records behind the others. A broker fills an answer
// in the order of the request, so no partition starves.
func (f *Fetcher) rotate() {
	var served []*reading
	rest := f.order[:0]
	for _, r := range f.order {
		if r.served {
			r.served = false
			served = append(served, r)
		} else {
			rest = append(rest, r)
		}
	}
	f.order = append(rest, served...)
}

// checkBudget checks from time to time whether the node's budget is used up. Then only
// partitions that hold less than their share are fetched. It returns when to check again.
func (f *Fetcher) checkBudget(now time.Time) (again time.Time) {
	if f.fetched >= budgetCheckBytes || now.Sub(f.checked) >= budgetCheck {
		f.checked, f.fetched = now, 0
		f.scarce = f.o.Assignment.OverBudget()
	}
	if f.scarce {
		return f.checked.Add(scarceCheck)
	}
	return now.Add(time.Hour)
}

// source names a partition for [health.Health].
func (f *Fetcher) source(r *reading) health.Source {
	return health.Source{Doing: health.Fetch, Topic: f.o.Source.Topic, Partition: r.p.ID()}
}

// failed delays the next fetch of partitions. Of faults that last it warns.
func (f *Fetcher) failed(all []*reading, err error, now time.Time) {
	within := againWithin
	if _, large := errors.AsType[*batches.TooLargeError](err); large {
		within = largeAgainWithin
	}
	var lasting []int
	for _, r := range all {
		r.faults++
		r.after = now.Add(wait.Backoff(r.faults, 25*time.Millisecond, within))
		if f.o.Health.Fails(f.source(r), err, Patience) {
			lasting = append(lasting, r.p.ID())
		}
	}
	if len(lasting) > 0 {
		slices.Sort(lasting)
		f.o.Log.Warn("could not fetch, trying again", "partitions", lasting, "error", err)
	}
	if mayHaveMoved(err) {
		f.o.LeaderMoved()
	}
}

// mayHaveMoved tells whether another broker may lead the partition by now.
func mayHaveMoved(err error) bool {
	code, answered := errors.AsType[kafka.Error](err)
	return !answered || code != kafka.OffsetOutOfRange
}
