package consumer

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"dispatcher/consumer/internal/broker"

	"dispatcher/internal/wait"

	"github.com/segmentio/kafka-go"
)

const (
	// answerBytes bounds an answer about several partitions.
	answerBytes = 1 << 20

	// fetchPatience is how long a partition may fail before it is worth a
	// warning: a change of leaders is mostly over by then.
	fetchPatience = 500 * time.Millisecond

	// After a long poll the next one waits so long, and longer the more partitions
	// it names: each record that comes would else cost a request about all of them.
	pollGap     = time.Millisecond
	pollGapEach = 25 * time.Microsecond

	// budgetLook is how often the node's budget is looked at, or each time when so
	// many bytes have come.
	budgetLook      = 5 * time.Millisecond
	budgetLookBytes = answerBytes / 2
	// scarceLook is when it is looked at again though nothing else happens.
	scarceLook = 20 * time.Millisecond
)

// A request is a long poll, for partitions whose records have all been read, or a
// read, for those with more. A broker gets at most so many of each at once from
// one topic: a partition that has just been read to its end, or has room again,
// need not wait for the long poll under way.
const (
	longPoll = iota
	plainRead
	requestKinds
)

const mostRequests = 2

// fetcher fetches the partitions of an assignment, all that one broker leads with
// one request. Its own goroutine decides what is asked for; one goroutine a
// request hands over what the answer holds.
type fetcher struct {
	a       *assignment
	seed    maphash.Seed
	answers chan answer
	running sync.WaitGroup // requests

	// The owner's.
	order   []*reading // requests name partitions in this order; those served last are the last
	byID    map[int]*reading
	leaders map[int]string // broker by partition
	brokers map[string]*brokerLoad
	scarce  bool      // the node's budget is used up
	looked  time.Time // at the budget
	brought int       // bytes since then

	mu      sync.Mutex // guards what others bring
	added   []*partition
	learned map[int]string
}

// reading is how far a partition has been fetched. While it is busy it belongs to
// its request.
type reading struct {
	p      *partition
	at     int64 // the next offset to ask for
	limit  int32 // bytes to ask for
	behind bool  // there is more to read
	busy   bool  // in a request
	full   bool  // no room in its buffer
	roomy  bool  // there was room again while it was busy
	served bool  // got records since the order was last made
	faults int
	after  time.Time // not to be asked for before
}

// brokerLoad is what one broker has to answer.
type brokerLoad struct {
	underWay [requestKinds]int
	wanted   [requestKinds][]*reading
	next     time.Time // the next long poll, not before
	until    time.Time // when the first of the long polls under way ends
}

func newFetcher(a *assignment) *fetcher {
	return &fetcher{
		a: a, seed: maphash.MakeSeed(), answers: make(chan answer),
		byID: make(map[int]*reading), brokers: make(map[string]*brokerLoad),
	}
}

// add brings a partition. Any goroutine may call it.
func (f *fetcher) add(p *partition) {
	f.mu.Lock()
	f.added = append(f.added, p)
	f.mu.Unlock()
	f.a.wakeFetcher()
}

// learn brings the partitions' leaders. Any goroutine may call it.
func (f *fetcher) learn(leaders map[int]string) {
	f.mu.Lock()
	f.learned = leaders
	f.mu.Unlock()
	f.a.wakeFetcher()
}

// run fetches while there is room, until the assignment ends. It never returns
// for a fault of the network: that would end the generation.
func (f *fetcher) run() {
	defer f.running.Wait()
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		t.Reset(time.Until(f.send(time.Now())))
		select {
		case <-f.a.ctx.Done():
			return
		case <-f.a.wake:
			f.collect(time.Now())
		case a := <-f.answers:
			f.note(a, time.Now())
		case <-t.C:
		}
	}
}

// collect takes what others have brought: partitions, leaders and room.
func (f *fetcher) collect(now time.Time) {
	f.mu.Lock()
	added, learned := f.added, f.learned
	f.added, f.learned = nil, nil
	f.mu.Unlock()
	for _, p := range added {
		r := &reading{p: p, at: p.begin, limit: broker.FetchBytes, behind: p.begin < p.stable}
		f.order = append(f.order, r)
		f.byID[p.id] = r
	}
	if learned != nil {
		f.follow(learned, now)
	}
	for _, p := range f.a.g.c.hub.roomy(f.a) {
		r := f.byID[p.id]
		r.full, r.roomy = false, r.busy
	}
}

// follow takes over who leads. A partition that has moved is tried at once.
func (f *fetcher) follow(leaders map[int]string, now time.Time) {
	for _, r := range f.order {
		if leaders[r.p.id] != f.leaders[r.p.id] {
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

// send makes all requests that can be made now. It returns when something may
// have changed by the mere passing of time.
func (f *fetcher) send(now time.Time) (again time.Time) {
	again = f.look(now)
	f.rotate()
	for _, r := range f.order {
		switch {
		case r.busy || r.full || r.p.over:
		case r.after.After(now):
			again = sooner(again, r.after)
		case f.leaders[r.p.id] == "":
			f.failed([]*reading{r}, fmt.Errorf("fetch: %w", kafka.LeaderNotAvailable), now)
			again = sooner(again, r.after)
		default:
			f.want(r)
		}
	}
	for addr, b := range f.brokers {
		for kind, all := range b.wanted {
			switch {
			case len(all) == 0 || b.underWay[kind] == mostRequests:
			case kind == longPoll && b.next.After(now):
				again = sooner(again, b.next)
			default:
				f.request(addr, b, kind, all, now)
			}
			b.wanted[kind] = all[:0]
		}
	}
	return again
}

func sooner(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// want puts a partition down for its broker's next request.
func (f *fetcher) want(r *reading) {
	addr := f.leaders[r.p.id]
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

// rotate moves the partitions that got records behind the others. A broker fills
// an answer in the order of the request, and so none goes without.
func (f *fetcher) rotate() {
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

// look finds out, now and then, whether the node's budget is used up. Then only
// partitions that hold less than their share are fetched.
func (f *fetcher) look(now time.Time) (again time.Time) {
	if f.brought >= budgetLookBytes || now.Sub(f.looked) >= budgetLook {
		f.looked, f.brought = now, 0
		f.scarce = f.a.g.c.hub.overBudget(f.a)
	}
	if f.scarce {
		return f.looked.Add(scarceLook)
	}
	return now.Add(time.Hour)
}

// failed puts partitions off, and says so where it lasts.
func (f *fetcher) failed(all []*reading, err error, now time.Time) {
	var tell []int
	for _, r := range all {
		r.faults++
		r.after = now.Add(wait.Backoff(r.faults, 25*time.Millisecond, time.Second))
		if f.a.g.c.state.fails(source{sourceFetch, r.p.topic, r.p.id}, err, fetchPatience) {
			tell = append(tell, r.p.id)
		}
	}
	if len(tell) > 0 {
		slices.Sort(tell)
		f.a.g.log().Warn("could not fetch, trying again", "partitions", tell, "error", err)
	}
	if moved(err) {
		f.a.lookSoon()
	}
}

// moved tells whether another broker may lead the partition by now.
func moved(err error) bool {
	code, answered := errors.AsType[kafka.Error](err)
	return !answered || code != kafka.OffsetOutOfRange
}
