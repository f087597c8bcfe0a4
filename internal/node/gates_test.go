package node

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/internal/figures"
	"dispatcher/internal/node/gates"
	"dispatcher/job"
	"dispatcher/sender"
	"dispatcher/throttle"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// limitsOf are an account, and a recipient's gate, with so many jobs a second.
func limitsOf(account, recipient int64) []configs.Limit {
	one := func(name, key string, most int64) configs.Limit {
		l := configs.Limit{Name: name, Key: key, Guard: "10ms"}
		l.Contract = limit.Contract{Cap: most, Window: time.Second, Burst: 1, Lateness: limit.DefaultLateness, Spread: 7 * time.Millisecond, Horizon: limit.DefaultHorizon}
		return l
	}
	return []configs.Limit{one("account", "", account), one("recipient", "job.json.to", recipient)}
}

// gated is a setup whose jobs are all accepted.
func gated(limits []configs.Limit) setup {
	return setup{
		limits: limits, workers: 64, attempts: 3, failures: 20, order: consumer.OrderNone, backoff: 100 * time.Millisecond, maxBackoff: time.Second,
		answer: func(string, int) sender.Result { return accepted },
	}
}

// to is a job for a recipient.
func to(recipient string, nth int) job.Record {
	id := fmt.Sprintf("%s-%d", recipient, nth)
	return job.Record{
		Key: []byte(id), Value: fmt.Appendf(nil, `{"to":%q}`, recipient),
		Headers: []job.Header{{Key: job.HeaderIdempotencyKey, Value: []byte(id)}},
	}
}

// backlog has so many jobs for one recipient, spread among those of others.
func backlog(hot, others int) (all []job.Record) {
	sent := 0
	for i := range others {
		for ; sent*others < hot*i; sent++ {
			all = append(all, to("hot", sent))
		}
		all = append(all, to(fmt.Sprint("r", i%max(1, others/2)), i))
	}
	for ; sent < hot; sent++ {
		all = append(all, to("hot", sent))
	}
	return all
}

// callsOf are the times of a recipient's calls by several nodes, in order; without one, of all.
func callsOf(recipient string, nodes ...*bubble) (all []time.Time) {
	for _, b := range nodes {
		b.mu.Lock()
		for id, at := range b.calls {
			if recipient == "" || strings.HasPrefix(id, recipient+"-") {
				all = append(all, at...)
			}
		}
		b.mu.Unlock()
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// keptApart checks that no two calls lie closer to each other than a window.
func (b *bubble) keptApart(calls []time.Time, window time.Duration) {
	b.Helper()
	for i := range len(calls) - 1 {
		if apart := calls[i+1].Sub(calls[i]); apart < window {
			b.Errorf("got calls %d and %d of one value %v apart, want at least %v", i, i+1, apart, window)
		}
	}
}

// The way to Redis is long here, so each slot lies somewhat behind the time at which its job
// may pass. No job loses its place for that.
func TestAHotValueUsesItsLimitAndHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	const hot, others = 200, 2000
	s := gated(limitsOf(300, 1))
	s.trip = 40 * time.Millisecond
	for i := range s.limits {
		s.limits[i].Lateness, s.limits[i].Spread, s.limits[i].Guard = 50*time.Millisecond, 10*time.Millisecond, "60ms"
	}
	inBubble(t, s, func(b *bubble) {
		b.write(backlog(hot, others)...)
		b.until(10*time.Minute, "all are settled", func() bool { return b.settled() == hot+others })
		b.calledOnce(hot + others)
		calls := callsOf("hot", b)
		b.keptApart(calls, time.Second)
		for i := range hot - 1 {
			if this, next := b.called(fmt.Sprint("hot-", i))[0], b.called(fmt.Sprint("hot-", i+1))[0]; next.Before(this) {
				t.Errorf("got job %d of the value %v before job %d, want them in their order", i+1, this.Sub(next), i)
			}
		}
		spacing := 1060 * time.Millisecond
		if took, most := calls[len(calls)-1].Sub(calls[0]), (hot-1)*spacing*110/100; took > most {
			t.Errorf("got %d jobs of one value in %v, want at most %v: a tenth more than their spacing", len(calls), took, most)
		}
		last := calls[0]
		for i := range others / 2 {
			last = slices.MaxFunc(append(callsOf(fmt.Sprint("r", i), b), last), time.Time.Compare)
		}
		if took, most := last.Sub(calls[0]), 2*others/300*time.Second; took > most {
			t.Errorf("got the others called after %v, want at most %v: a hot value held them up", took, most)
		}
	})
}

// Values whose limits are used up have their slots far ahead. A job of another value that comes
// meanwhile gets one before them.
func TestAJobDoesNotWaitForSlotsFarAhead(t *testing.T) {
	t.Parallel()
	const values, each = 4, 80
	inBubble(t, gated(limitsOf(300, 20)), func(b *bubble) {
		var all []job.Record
		for i := range values * each {
			all = append(all, to(fmt.Sprint("hot", i%values), i))
		}
		b.write(all...)
		b.until(time.Minute, "some are called", func() bool { return len(callsOf("", b)) > 0 })
		for i := range 20 {
			time.Sleep(137 * time.Millisecond)
			wrote := time.Now()
			b.write(to(fmt.Sprint("r", i), i))
			b.until(time.Second, "it is called", func() bool { return len(callsOf(fmt.Sprint("r", i), b)) > 0 })
			if took := callsOf(fmt.Sprint("r", i), b)[0].Sub(wrote); took > 120*time.Millisecond {
				t.Errorf("got it called after %v, want at most 120 ms: 65 where no other job waits, and a block", took)
			}
		}
		b.until(time.Minute, "all are settled", func() bool { return b.settled() == values*each+20 })
	})
}

// calledOnce checks that so many jobs were called, and each once.
func (b *bubble) calledOnce(jobs int) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.calls) != jobs {
		b.Errorf("got %d jobs called, want %d", len(b.calls), jobs)
	}
	for id, at := range b.calls {
		if len(at) != 1 {
			b.Errorf("got %d calls of job %s, want one", len(at), id)
		}
	}
}

// another starts one more node of the same fleet.
func (b *bubble) another() *bubble {
	n := &bubble{T: b.T, network: b.network, setup: b.setup, kafka: b.kafka, redis: b.redis, calls: map[string][]time.Time{}}
	n.start()
	return n
}

// settledOf is how many offsets the group has committed in all partitions.
func (b *bubble) settledOf() (n int64) {
	if g := b.kafka.GroupInfo("g.jobs"); g != nil {
		for _, c := range g.Commits["jobs"] {
			n += c.Offset
		}
	}
	return n
}

// Each node has a part of the jobs of one value, and knows nothing of those of the other.
func TestNodesShareAHotValue(t *testing.T) {
	t.Parallel()
	const hot, others = 150, 1500
	s := gated(limitsOf(300, 1))
	s.partitions = 6
	inBubble(t, s, func(b *bubble) {
		second, third := b.another(), b.another()
		defer func() { second.stop(); third.stop() }()
		nodes := []*bubble{b, second, third}
		b.until(time.Minute, "both have partitions", func() bool {
			for _, n := range nodes {
				if s := n.consumer.Status(); !s.Joined || len(s.Partitions) != 2 {
					return false
				}
			}
			return true
		})
		b.write(backlog(hot, others)...)
		b.until(20*time.Minute, "all are settled", func() bool { return b.settledOf() == hot+others })
		calls := callsOf("hot", nodes...)
		b.keptApart(calls, time.Second)
		took := calls[len(calls)-1].Sub(calls[0])
		if want := (hot - 1) * 1010 * time.Millisecond; len(calls) != hot || took > want*110/100 {
			t.Errorf("got %d calls of one value in %v, want %d in at most a tenth more than %v", len(calls), took, hot, want)
		}
		t.Logf("took %v; ideal %v", took, (hot-1)*1010*time.Millisecond)
	})
}

// The account's limit is used while jobs also count on their senders and recipients: nobody
// waits behind a job that waits for another limit. That holds as well where hosts stop, so that
// the fleet chose a longer lateness and the nodes hold few slots ahead; and on the two nodes that are
// left of three, from the end of a cooldown in which all jobs waited for their senders.
func TestTheAccountIsUsedBehindSendersAndRecipients(t *testing.T) {
	t.Parallel()
	for _, lateness := range limit.LatenessClasses[:3] {
		t.Run(lateness.String(), func(t *testing.T) {
			t.Parallel()
			crowd{lateness: lateness, fleet: 3, senders: 10, ofSender: 50, asked: 0.3}.check(t)
		})
	}
	t.Run("after a cooldown", func(t *testing.T) {
		t.Parallel()
		crowd{lateness: limit.LatenessClasses[0], fleet: 2, senders: 10, ofSender: 50, asked: 0.3, before: func(b *bubble) {
			b.redis.mini.FlushAll()
			time.Sleep(500 * time.Millisecond) // by then all know of it
		}}.check(t)
	})
}

// Senders whose limits together are less than the account's use theirs, whatever their
// recipients' limits are. A recipient that has many jobs uses its limit meanwhile: a job of it whose
// turn has come does not wait behind all that are younger and wait for its sender.
func TestSendersUseTheirLimitsBelowThatOfTheAccount(t *testing.T) {
	t.Parallel()
	crowd{lateness: limit.LatenessClasses[0], fleet: 3, senders: 4, ofSender: 20, asked: 0.5, hot: 16}.check(t)
}

// Jobs behind others in a line go on when those ahead have gone to wait for another limit: senders use their limits
// although half of their jobs wait for one recipient.
func TestALineGoesOnWhenJobsAheadWaitForAnotherLimit(t *testing.T) {
	t.Parallel()
	const senders, each = 5, 10 // and as many for one recipient
	limits := limitsOf(300, 1)
	of := limits[1]
	of.Name, of.Key, of.Cap, of.Window = "sender", `job.headers["from"]`, 1, 2*time.Second
	inBubble(t, gated(append(limits, of)), func(b *bubble) {
		var all []job.Record
		add := func(from int, r job.Record) {
			r.Headers = append(r.Headers, job.Header{Key: "from", Value: fmt.Append(nil, "s", from)})
			all = append(all, r)
		}
		for i := range senders * each {
			add(i%senders, to("hot", i))
		}
		for i := range senders * each {
			add(i%senders, to(fmt.Sprint("r", i), i))
		}
		b.write(all...)
		b.until(5*time.Minute, "all are settled", func() bool { return b.settled() == int64(len(all)) })
		first, last := callsOf("hot", b)[0], time.Time{}
		for i := range senders * each {
			last = slices.MaxFunc(append(callsOf(fmt.Sprint("r", i), b), last), time.Time.Compare)
		}
		took, most := last.Sub(first), each*10*time.Second/3*11/10
		t.Logf("the jobs of other recipients were called within %v", took)
		if took > most {
			t.Errorf("got the jobs of other recipients called within %v, want %v: a sender sends half a job a second, and a fifth of one to the hot recipient", took, most)
		}
	})
}

// crowd is a backlog of jobs that count on an account of 300 a second, on their senders, and on
// recipients of one a second.
type crowd struct {
	lateness          time.Duration
	fleet             int
	senders, ofSender int           // how many, and jobs a second of each
	asked             float64       // script calls a job, at most
	hot               int           // how many of the jobs are for one more recipient
	before            func(*bubble) // nil: nothing happens before the backlog comes
}

// check has nodes call the backlog, and checks how much they use of what the limits allow.
func (c crowd) check(t *testing.T) {
	t.Helper()
	const recipients = 500
	limits := limitsOf(300, 1)
	limits[0].Guard, limits[0].Lateness = parameters.Auto, c.lateness
	sender := limits[1]
	sender.Name, sender.Key, sender.Cap = "sender", `job.headers["from"]`, int64(c.ofSender)
	limits = append(limits, sender)
	account, each := limits[0].Stated(), sender.Stated().Beside(limits[0].Stated().Terms)
	left := min(300*account.Share(), float64(c.senders*c.ofSender)*each.GateShare())
	jobs := int(20 * left)
	s := gated(limits)
	s.partitions = 6
	inBubble(t, s, func(b *bubble) {
		nodes := []*bubble{b}
		for range c.fleet - 1 {
			one := b.another()
			defer func() { one.stop() }()
			nodes = append(nodes, one)
		}
		b.until(time.Minute, "all have partitions", func() bool {
			return !slices.ContainsFunc(nodes, func(n *bubble) bool { return len(n.consumer.Status().Partitions) != 6/c.fleet })
		})
		if c.before != nil {
			c.before(b)
		}
		b.write(c.backlog(jobs, recipients)...)
		b.until(20*time.Minute, "all are settled", func() bool { return b.settledOf() == int64(jobs) })
		calls := callsOf("", nodes...)
		most := jobs * 9 / 10
		share := float64(most-1) / calls[most-1].Sub(calls[0]).Seconds() / left
		asked := 0.0
		for _, n := range nodes {
			asked += n.metric("dispatcher_limit_script_calls_total") / float64(jobs)
		}
		t.Logf("%.3f of what the limits allow used until 0.9 of the jobs were called; %.2f script calls a job", share, asked)
		if asked > c.asked {
			t.Errorf("got %.2f script calls a job, want at most %.1f", asked, c.asked)
		}
		if hot := callsOf("hot", nodes...); len(hot) > 0 {
			// The last ones may stand near the end of the backlog, each a second behind another.
			if late := hot[len(hot)-1].Sub(calls[most]); late > 7*time.Second {
				t.Errorf("got the last of the %d jobs of one recipient called %v after nine tenths of all, want 7 s at most", len(hot), late)
			}
		}
		if len(calls) != jobs || share < 0.98 {
			t.Errorf("got %d calls, and %.3f of what the limits allow used until 0.9 of them, want %d and at least 0.98", len(calls), share, jobs)
		}
	})
}

// backlog has the jobs in no order.
func (c crowd) backlog(jobs, recipients int) (all []job.Record) {
	dice := rand.New(rand.NewPCG(1, 1))
	for i := range jobs {
		recipient := fmt.Sprint("r", i%recipients)
		if i < c.hot {
			recipient = "hot"
		}
		r := to(recipient, i)
		r.Headers = append(r.Headers, job.Header{Key: "from", Value: fmt.Append(nil, "s", dice.IntN(c.senders))})
		all = append(all, r)
	}
	dice.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// A job counts on each limit what that limit says.
func TestAJobCountsWhatEachLimitSays(t *testing.T) {
	t.Parallel()
	const jobs, recipients = 120, 40
	s := gated(limitsOf(60, 1))
	s.limits[0].MaxCost, s.limits[1].Cost = 3, "1" // messages of three segments
	inBubble(t, s, func(b *bubble) {
		var all []job.Record
		for i := range jobs {
			r := to(fmt.Sprint("r", i%recipients), i)
			r.Headers = append(r.Headers, job.Header{Key: job.HeaderCost, Value: []byte("3")})
			all = append(all, r)
		}
		b.write(all...)
		b.until(time.Minute, "all are settled", func() bool { return b.settled() == jobs })
		b.calledOnce(jobs)
		calls := callsOf("", b)
		if took, least := calls[jobs-1].Sub(calls[0]), (jobs-1)*3*time.Second/60; took < least {
			t.Errorf("got %d jobs of three units in %v, want at least %v at 60 units a second", jobs, took, least)
		}
		for i := range recipients {
			b.keptApart(callsOf(fmt.Sprint("r", i), b), time.Second)
		}
	})
}

// setLimit is an operator who changes the recipient's limit.
func (b *bubble) setLimit(values parameters.Values) {
	b.Helper()
	operator, err := control.NewControl(b.redis, "ns", "recipient")
	b.must(err)
	_, err = operator.Set(b.Context(), control.Change{Values: values, By: "test", Force: true})
	b.must(err)
}

// hot writes so many jobs for one recipient, and waits until some are called.
func (b *bubble) hot(jobs, called int) {
	b.Helper()
	b.write(backlog(jobs, 0)...)
	b.until(2*time.Minute, "some are called", func() bool { return len(callsOf("hot", b)) >= called })
}

// After a rise of the cap no job waits on by the old times.
func TestARiseOfACapEndsTheOldWaits(t *testing.T) {
	t.Parallel()
	const jobs = 100
	inBubble(t, gated(limitsOf(300, 1)), func(b *bubble) {
		b.hot(jobs, 5)
		b.setLimit(parameters.Values{"cap": "50"})
		b.until(3*gates.Recheck, "all are settled", func() bool { return b.settled() == jobs })
		b.calledOnce(jobs)
	})
}

// A cut keeps the jobs further apart, from the time on at which it is in force.
func TestACutOfACapIsKept(t *testing.T) {
	t.Parallel()
	const jobs = 60
	inBubble(t, gated(limitsOf(300, 10)), func(b *bubble) {
		b.hot(jobs, 10)
		b.setLimit(parameters.Values{"cap": "1"})
		before := len(callsOf("hot", b)) + 2 // of the slots that were out
		b.until(2*jobs*time.Second, "all are settled", func() bool { return b.settled() == jobs })
		b.calledOnce(jobs)
		b.keptApart(callsOf("hot", b)[before:], time.Second)
	})
}

// Nothing goes while a gate is paused. The jobs go on in time after that.
func TestAGateGoesOnAfterAPause(t *testing.T) {
	t.Parallel()
	const jobs = 20
	inBubble(t, gated(limitsOf(300, 10)), func(b *bubble) {
		b.hot(jobs, 5)
		b.setLimit(parameters.Values{"paused": "true"})
		time.Sleep(2 * time.Second)
		before := len(callsOf("hot", b))
		time.Sleep(30 * time.Second)
		if got := len(callsOf("hot", b)); got != before || got == jobs {
			t.Fatalf("got %d calls, want the %d before the pause", got, before)
		}
		if account, recipient := b.limiter.Settings(0), b.limiter.Settings(1); account.Paused || !recipient.Paused || recipient.By != "test" {
			t.Errorf("got %+v and %+v, want that the node knows who paused the recipient's limit", account, recipient)
		}
		if p := pauseOf(b.limiter.Settings(1)); p == nil || *p != (figures.Pause{By: "test"}) {
			t.Errorf("got %+v in the figures, want who changed it last", p)
		}
		if account, recipient := b.metric("dispatcher_limit_paused", "account"), b.metric("dispatcher_limit_paused", "recipient"); account != 0 || recipient != 1 {
			t.Errorf("got the metrics %v and %v, want 0 of the account and 1 of the recipient", account, recipient)
		}
		b.setLimit(parameters.Values{"paused": "false"})
		b.until(gates.Recheck, "the node knows it", func() bool { return pauseOf(b.limiter.Settings(1)) == nil })
		b.until(3*gates.Recheck, "all are settled", func() bool { return b.settled() == jobs })
		b.calledOnce(jobs)
	})
}

// A node that can't remember more values asks for each job of the others, and forgets those
// that say nothing any more.
func TestTheValuesThatANodeRemembersAreBounded(t *testing.T) {
	t.Parallel()
	const jobs = 300
	s := gated(limitsOf(300, 1))
	s.maxValues = 10
	inBubble(t, s, func(b *bubble) {
		var all []job.Record
		for i := range jobs {
			all = append(all, to(fmt.Sprint("r", i%100), i))
		}
		b.write(all...)
		b.until(2*time.Minute, "all are settled", func() bool { return b.settled() == jobs })
		b.calledOnce(jobs)
		for i := range 100 {
			b.keptApart(callsOf(fmt.Sprint("r", i), b), time.Second)
		}
		b.stop() // the pacer has ended
		if got := b.gates.Values(); got == 0 || got > s.maxValues {
			t.Errorf("got %d values remembered, want 1 to %d", got, s.maxValues)
		}
		b.start()
	})
}

// A job that waits for a gate holds its partition, and no longer than that.
func TestAPartitionInOrderGoesOnBehindAHotValue(t *testing.T) {
	t.Parallel()
	const hot, others = 10, 40
	s := gated(limitsOf(300, 1))
	s.order = consumer.OrderPartition
	inBubble(t, s, func(b *bubble) {
		all := backlog(hot, others)
		b.write(all...)
		b.until(time.Minute, "all are settled", func() bool { return b.settled() == hot+others })
		b.calledOnce(hot + others)
		last := time.Time{}
		for _, r := range all {
			at := b.called(string(r.Key))[0]
			if at.Before(last) {
				t.Fatalf("got job %s called %v before the one ahead of it", r.Key, last.Sub(at))
			}
			last = at
		}
	})
}

// The metrics of a gate count the jobs that wait, and those that have waited.
func TestAGateCountsTheJobsThatWait(t *testing.T) {
	t.Parallel()
	const jobs = 10
	inBubble(t, gated(limitsOf(300, 1)), func(b *bubble) {
		b.hot(jobs, 1)
		b.until(time.Second, "the others wait", func() bool { return b.metric("dispatcher_limit_waiting_jobs") == jobs-1 })
		if got := b.consumer.Piles(10, 100, b.gates.ValueOf); len(got) != 1 || got[0].Limit != "recipient" || got[0].Value != throttle.HashOf("hot") || got[0].Jobs != jobs-1 {
			t.Errorf("got %+v, want the %d jobs that wait for the value, by its hash", got, jobs-1)
		}
		b.until(time.Minute, "all are settled", func() bool { return b.settled() == jobs })
		if waiting, refused := b.metric("dispatcher_limit_waiting_jobs"), b.metric("dispatcher_limit_refused_jobs_total"); waiting != 0 || refused != jobs {
			t.Errorf("got %v jobs that wait and %v that were refused, want 0 and %d: a new gate lets none pass at first", waiting, refused, jobs)
		}
	})
}

// metric is the sum of a metric's series, of those with a value of some label if one is stated.
func (b *bubble) metric(name string, labelled ...string) float64 {
	b.Helper()
	families, err := b.metrics.Gather()
	b.must(err)
	for _, f := range families {
		if f.GetName() == name {
			sum := 0.0
			for _, m := range f.GetMetric() {
				wanted := len(labelled) == 0
				for _, l := range m.GetLabel() {
					wanted = wanted || slices.Contains(labelled, l.GetValue())
				}
				if wanted {
					sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
				}
			}
			return sum
		}
	}
	b.Fatalf("there is no metric %s", name)
	return 0
}

// A job that expires while it waits gives its place up. It may still come back, to be settled,
// after the value itself was forgotten.
func TestAJobThatHadGoneLeavesNoLine(t *testing.T) {
	t.Parallel()
	s := gated(limitsOf(300, 1))
	s.answer, s.maxValues = nil, 1
	inBubble(t, s, func(b *bubble) {
		b.write(to("hot", 0), to("hot", 1), to("other", 0))
		gone, next, other := b.take(), b.take(), b.take()
		wants := func(d *consumer.Delivery) throttle.Request {
			r, err := b.gates.Request(d)
			b.must(err)
			return r
		}
		now := time.Now()
		refused := throttle.Answer{Until: now.Add(2 * time.Second)}
		alone := b.gates.RefusedBy(gone, wants(gone), refused, now)
		behind := b.gates.RefusedBy(next, wants(next), refused, now)
		if gap := behind.Until.Sub(alone.Until); gap != time.Second+10*time.Millisecond {
			b.Errorf("got the second job asked for %v after the first one, want a window and the guard", gap)
		}
		gone.Job.NotAfter = now.Add(-time.Second)
		for range 2 {
			if wait, shut := b.gates.Shut(next, wants(next), now); !shut || wait != alone {
				b.Errorf("got it asked for at %v, want %v: the first one has expired", wait.Until, alone.Until)
			}
			b.gates.Drop(gone)
		}
		next.Job.NotAfter = gone.Job.NotAfter
		later := now.Add(time.Minute)
		b.gates.Passed(other, wants(other), later, later)
		b.gates.Drop(next)
		if wait, shut := b.gates.Shut(gone, wants(gone), later); shut {
			b.Errorf("got a job that is to wait until %v, want its value forgotten", wait.Until)
		}
	})
}
