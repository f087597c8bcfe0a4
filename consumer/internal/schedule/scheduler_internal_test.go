package schedule

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/consumer/internal/offsets"
	"dispatcher/consumer/internal/order"
	"dispatcher/consumer/internal/states"
	"dispatcher/consumer/internal/status"

	"dispatcher/job"

	"pgregory.net/rapid"
)

// bench is a scheduler with assignments and partitions, and no Kafka.
type bench struct{ *Scheduler }

// atOnce settles jobs without writing anything.
type atOnce struct{ Settler }

func (atOnce) Done(d *Delivery, _ Outcome) { Settle(d) }

func newBench(lanes ...*Lane) *bench {
	return &bench{New(Options{
		Lanes: lanes, Order: order.Key, BufferBytes: 64 << 20, MaxAsleep: 1 << 14, MaxAsleepBytes: 64 << 20,
		Settler: atOnce{}, Log: slog.New(slog.DiscardHandler),
	})}
}

// partition adds one to an assignment.
func partition(a *Assignment, l *Lane, id int) *Partition {
	p := a.NewPartition(&Source{Topic: l.name, JobTopic: l.name, Lane: l}, PartitionOptions{ID: id, Tracker: offsets.NewTracker(0)})
	a.Open([]*Partition{p})
	return p
}

// addJobs adds jobs with these keys behind those that were fetched; 0: no key.
func addJobs(p *Partition, keys ...byte) {
	next := p.fetched + int64(len(keys))
	batch := &Batch{Bytes: len(keys) * jobBytes, Next: next, Stable: next}
	for i, key := range keys {
		d := new(Delivery)
		d.Job = job.Job{Record: job.Record{Topic: p.src.Topic, Partition: p.id, Offset: p.fetched + int64(i)}}
		if key != 0 {
			d.Job.Key = []byte{key}
			d.Job.NotAfter = farAway.Add(time.Duration(key) * time.Second)
		}
		about := Prepared{Size: jobBytes}
		if p.src.Lane.fair {
			about.Tenant = fmt.Sprint(key % 2)
		}
		Prepare(d, p, about)
		batch.Jobs = append(batch.Jobs, d)
	}
	p.Add(batch)
}

const jobBytes = 512

// farAway is about when jobs with a key expire.
var farAway = time.Now().Add(1000 * time.Hour).Truncate(time.Second)

// After any sequence of calls: the jobs that are ready and in flight stay within the limit,
// but for samples. Keys keep their order, and one job of each is out, also while jobs sleep,
// while their records are written and where samples are taken. The oldest job is the one at
// the committed offset. A drain drops all jobs that were not taken, and their bytes.
func TestSchedulerUnderAnyWork(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := &Lane{name: "default", mostJobs: rapid.IntRange(1, 6).Draw(t, "limit"), fair: rapid.Bool().Draw(t, "fair")}
		w := newBench(l)
		a := w.NewAssignment()
		parts := []*Partition{partition(a, l, 0), partition(a, l, 1)}
		w.sleepers.MaxJobs = rapid.IntRange(1, 6).Draw(t, "most asleep")
		var held, sleeping, deferred []*Delivery
		samples := map[*Delivery]bool{}
		keys := keyWatch{last: map[string]int64{}, holder: map[string]*Delivery{}}
		done, added := 0, 0
		sleeps := time.Now().Add(time.Hour) // each job sleeps longer than the one before, so they wake in one order
		drawn := func(t *rapid.T, sample func() *Delivery) *Delivery {
			w.random = func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "sample") }
			return sample()
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				keys := rapid.SliceOfN(rapid.ByteRange(0, 3), 0, 10).Draw(t, "keys")
				addJobs(parts[rapid.IntRange(0, 1).Draw(t, "partition")], keys...)
				added += len(keys)
			},
			"take": func(t *rapid.T) {
				waits := w.ReadyJobs()
				d := w.Take()
				if (d == nil) != (waits == 0) {
					t.Fatalf("got job %v while %d wait, want one only if some wait", d, waits)
				}
				if d == nil {
					return
				}
				held = append(held, d)
				keys.taken(t, d)
			},
			"sample": func(t *rapid.T) {
				if d := drawn(t, w.TakeSample); d != nil {
					held, samples[d] = append(held, d), true
					keys.taken(t, d)
				} else if n := w.ReadyJobs(); n > 0 {
					t.Fatalf("got no sample of %d jobs that wait, want one", n)
				}
			},
			"sleep": func(t *rapid.T) {
				if len(held) == 0 {
					return
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				late := held[i].state.Late()
				sleeps = sleeps.Add(time.Second)
				held[i].Sleep(SleepOptions{Until: sleeps, WakeEarly: true, Failed: true, Memo: 1})
				if !late {
					sleeping = append(sleeping, held[i])
				}
				delete(samples, held[i])
				held = append(held[:i], held[i+1:]...)
			},
			"defer": func(t *rapid.T) {
				d := w.Take()
				if d == nil {
					return
				}
				keys.taken(t, d)
				keys.comesAgain(d)
				w.Defer(d, DeferOptions{Until: sleeps.Add(-time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "sooner"))), Limit: "recipient"})
				deferred = append(deferred, d)
			},
			"resume": func(t *rapid.T) {
				all := rapid.Permutation(slices.Concat(held, sleeping, deferred)).Draw(t, "some")
				some := all[:rapid.IntRange(0, len(all)).Draw(t, "of them")]
				w.Resume(some)
				deferred = slices.DeleteFunc(deferred, func(d *Delivery) bool { return slices.Contains(some, d) })
				for _, d := range deferred {
					if one, _ := w.timers.At(d.wait.timer); d.state != states.Asleep || one.d != d {
						t.Fatalf("offset %d: got state %d and timer %d, want it asleep behind its own timer", d.Job.Offset, d.state, d.wait.timer)
					}
				}
			},
			"requeue": func(t *rapid.T) {
				if len(held) == 0 {
					return
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				if !held[i].state.Late() {
					keys.comesAgain(held[i])
				}
				held[i].Requeue()
				delete(samples, held[i])
				held = append(held[:i], held[i+1:]...)
			},
			"take and put back": func(t *rapid.T) {
				var taken []*Delivery
				for d := w.Take(); d != nil; d = w.Take() {
					taken = append(taken, d)
				}
				used := rapid.IntRange(0, len(taken)).Draw(t, "used")
				w.PutBack(taken[used:])
				for _, d := range taken[:used] {
					held = append(held, d)
					keys.taken(t, d)
				}
				if d := w.Take(); len(samples) == 0 && used < len(taken) && d != taken[used] {
					t.Fatalf("got job %v next, want the first that was put back", d)
				} else if d != nil {
					w.PutBack([]*Delivery{d})
				}
			},
			"wake": func(*rapid.T) {
				w.Wake()
				sleeping = nil
			},
			"settle": func(t *rapid.T) {
				if len(held) == 0 {
					return
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				if !held[i].state.Late() {
					keys.left(held[i])
					done++
				}
				held[i].Done(Outcome{})
				delete(samples, held[i])
				held = append(held[:i], held[i+1:]...)
			},
			"begin a record": func(t *rapid.T) {
				if len(held) == 0 {
					return
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				if !BeginRecord(held[i]) {
					delete(samples, held[i])
					held = append(held[:i], held[i+1:]...)
				}
			},
			"time out": func(t *rapid.T) {
				if len(held) == 0 {
					return
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				if d := rapid.SampledFrom(held).Draw(t, "which"); !d.state.Late() {
					w.timeOut(d, time.Now())
				}
			},
			"write the diverted": func(*rapid.T) {
				for _, d := range a.Diverted() {
					keys.left(d)
					EndRecord(d, true)
					done++
				}
			},
			"": func(t *rapid.T) {
				if l.inFlight != len(held) || l.inFlight+l.takeable() > l.mostJobs+len(samples) {
					t.Fatalf("got %d in flight and %d to take, want %d in flight and at most %d together", l.inFlight, l.takeable(), len(held), l.mostJobs)
				}
				if l.fair && parts[0].ready.Items+parts[1].ready.Items != l.ready.Len() {
					t.Fatalf("got %d and %d jobs ready of the partitions, want %d together", parts[0].ready.Items, parts[1].ready.Items, l.ready.Len())
				}
				n := len(sleeping)
				if !l.fair {
					n += len(deferred)
				}
				if jobs, bytes := w.sleepers.Count(); jobs != n || bytes != n*jobBytes || w.SleepersFull() != (n >= w.sleepers.MaxJobs) {
					t.Fatalf("got %d asleep in %d bytes, want %d", jobs, bytes, n)
				}
				eachIsFoundOnce(t, w, added-done)
				backlogIsThatOfAWalk(t, w)
				pilesAreThoseOfAWalk(t, w)
				for _, p := range parts {
					if (p.open.Oldest() == nil) != (p.tracker.Open() == 0) || p.open.Oldest() != nil && p.open.Oldest().Job.Offset != p.tracker.Low() {
						t.Fatalf("got %+v for the oldest, want offset %d, one of %d", p.open.Oldest(), p.tracker.Low(), p.tracker.Open())
					}
				}
			},
		})
		a.Drain()
		backlogIsThatOfAWalk(t, w)
		asleep, _ := w.sleepers.Count()
		if w.Take() != nil || drawn(t, w.TakeSample) != nil || asleep != 0 || w.Backlog(1)[0].Jobs != 0 || l.parts.Head() != nil && l.parts.Head().hasSome() {
			t.Fatalf("got ready jobs, or %d asleep, after the drain; want none", asleep)
		}
		for _, d := range held {
			d.Release()
		}
		select {
		case <-a.Idle():
		default:
			t.Fatalf("got %d jobs awaited after all were released, want none", a.awaited)
		}
		complete := int64(0)
		for _, p := range parts {
			if p.held() != 0 {
				t.Fatalf("got %d bytes held after the drain, want none", p.held())
			}
			s := p.tracker.Snapshot()
			complete += s.Low
			for i := range int64(s.Bitmap.N) {
				if s.Bitmap.Has(i) {
					complete++
				}
			}
		}
		if complete != int64(done) {
			t.Fatalf("got %d offsets complete, want the %d that were done", complete, done)
		}
	})
}

// eachIsFoundOnce wants each job that is not settled to be found, once.
func eachIsFoundOnce(t *rapid.T, w *bench, jobs int) {
	all := w.Find(func(*Delivery) bool { return true }, jobs+1)
	seen := map[status.Place]bool{}
	for _, one := range all {
		seen[one.Place] = true
	}
	if len(all) != jobs || len(seen) != jobs {
		t.Fatalf("got %d stays of %d jobs, want one for each of %d", len(all), len(seen), jobs)
	}
}

// keyWatch watches the jobs of each key that are handed out. A key belongs to a partition.
type keyWatch struct {
	last   map[string]int64     // offset that was handed out last
	holder map[string]*Delivery // the job that was handed out and has not left
}

// taken fails the test for a job that was handed out before an earlier one of its key, again
// without having slept, or while another one of its key has not left.
func (k keyWatch) taken(t *rapid.T, d *Delivery) {
	t.Helper()
	if d.keyQueue.Key() == 0 {
		return
	}
	name := keyOf(d)
	if before, ok := k.last[name]; ok && (before > d.Job.Offset || before == d.Job.Offset && !d.failed) {
		t.Fatalf("got offset %d of %s after offset %d, want a later one", d.Job.Offset, name, before)
	}
	if h := k.holder[name]; h != nil && h != d {
		t.Fatalf("got offset %d of %s while offset %d has not left, want one at a time", d.Job.Offset, name, h.Job.Offset)
	}
	k.last[name], k.holder[name] = d.Job.Offset, d
}

// comesAgain: a worker could not call the job.
func (k keyWatch) comesAgain(d *Delivery) {
	if d.keyQueue.Key() != 0 {
		k.last[keyOf(d)]--
	}
}

// left: the job is settled.
func (k keyWatch) left(d *Delivery) {
	if d.keyQueue.Key() != 0 {
		delete(k.holder, keyOf(d))
	}
}

func keyOf(d *Delivery) string { return fmt.Sprintf("key %d of partition %d", d.Job.Key, d.part.id) }

// When fewer jobs sleep than may, partitions that were passed over meanwhile go on.
func TestPartitionsGoOnWhenFewerSleep(t *testing.T) {
	t.Parallel()
	l := &Lane{name: "default", mostJobs: 1}
	w := newBench(l)
	w.sleepers.MaxJobs = 1
	a := w.NewAssignment()
	addJobs(partition(a, l, 0), 0, 0)
	addJobs(partition(a, l, 1), 0, 0, 0)
	w.Take().Sleep(SleepOptions{Until: time.Now().Add(time.Hour), WakeEarly: true, Failed: true})
	if d := w.Take(); d != nil {
		t.Fatalf("got %v while as many sleep as may, want nothing", d)
	}
	w.Wake()
	handled := map[int]int{}
	for d := w.Take(); d != nil; d = w.Take() {
		handled[d.part.id]++
		d.Done(Outcome{})
	}
	if handled[0] != 2 || handled[1] != 3 {
		t.Errorf("got %v handled of the two partitions, want 2 and 3", handled)
	}
}

// Room among the sleepers is for every lane, not only for that of the job which woke.
func TestRoomAmongSleepersGoesToAllLanes(t *testing.T) {
	t.Parallel()
	for name, wakeUp := range map[string]func(*bench, *Delivery){
		"at its time": func(*bench, *Delivery) { time.Sleep(time.Minute) },
		"resumed":     func(w *bench, d *Delivery) { w.Resume([]*Delivery{d}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				urgent, other := NewLane("urgent", 1), NewLane("other", 1)
				w := newBench(urgent, other)
				w.sleepers.MaxJobs = 1
				a, end := w.NewAssignment(), make(chan struct{})
				go w.KeepTime(end)
				defer close(end)
				addJobs(partition(a, other, 0), 0)
				sleeper := w.Take()
				w.Defer(sleeper, DeferOptions{Until: time.Now().Add(time.Minute), Limit: "recipient"})
				addJobs(partition(a, urgent, 0), 0)
				if d := w.Take(); d != nil {
					t.Fatalf("got %v while as many sleep as may, want nothing", d)
				}
				wakeUp(w, sleeper)
				synctest.Wait()
				if got := w.ReadyLanes(); got != 0b11 {
					t.Errorf("got jobs ready in the lanes %02b once the sleeper woke, want them in both, 11", got)
				}
			})
		})
	}
}

// Ready jobs of a partition that goes away make room for those of others.
func TestADrainMakesRoomForOthers(t *testing.T) {
	t.Parallel()
	l := &Lane{name: "default", mostJobs: 4}
	w := newBench(l)
	a, b := w.NewAssignment(), w.NewAssignment()
	addJobs(partition(a, l, 0), 0, 0, 0, 0)
	addJobs(partition(b, l, 1), 0, 0)
	a.Drain()
	for range 2 {
		if d := w.Take(); d == nil || d.part.asg != b {
			t.Fatalf("got %v, want a job of the other assignment", d)
		}
	}
	if d := w.Take(); d != nil {
		t.Errorf("got %v, want nothing", d)
	}
}

// Retries whose time has come and fresh jobs go in turn, so that neither holds up
// the other. In partition order the retry is the only one that may go.
func TestRetriesTakeTurns(t *testing.T) {
	t.Parallel()
	for by, want := range map[order.Order][]int64{order.None: {4, 0, 5, 1, 6, 2, 7, 3}, order.Partition: {0, 1, 2, 3, 4, 5, 6, 7}} {
		l := &Lane{name: "default", mostJobs: 1}
		w := newBench(l)
		w.keys = order.NewKeys(by)
		p := partition(w.NewAssignment(), l, 0)
		addJobs(p, make([]byte, 8)...)
		for range 4 {
			if d := w.Take(); d != nil {
				d.Sleep(SleepOptions{Until: time.Now().Add(time.Hour), WakeEarly: true, Failed: true})
			}
		}
		first := w.Take() // it is ready already
		w.Wake()
		if first == nil {
			first = w.Take()
		}
		var got []int64
		for d := first; d != nil; d = w.Take() {
			got = append(got, d.Job.Offset)
			d.Done(Outcome{})
		}
		if !slices.Equal(got, want) {
			t.Errorf("order %s: got %v, want %v", by, got, want)
		}
	}
}

// A sample is taken beyond the room of its lane. Put back, it waits as a fresh job does.
func TestASampleThatIsPutBackKeepsTheLanesRoom(t *testing.T) {
	t.Parallel()
	l := &Lane{name: "default", mostJobs: 1}
	w := newBench(l)
	w.random = func(int) int { return 0 }
	addJobs(partition(w.NewAssignment(), l, 0), 0, 1)
	first, sample := w.Take(), w.TakeSample()
	if first == nil || sample == nil {
		t.Fatalf("got %v and the sample %v, want a job and a sample", first, sample)
	}
	w.PutBack([]*Delivery{sample})
	if taken := l.inFlight + l.ready.Len(); taken > l.mostJobs {
		t.Errorf("got %d jobs in flight and ready, and the lane has room for %d", taken, l.mostJobs)
	}
	first.Done(Outcome{})
	if again := w.Take(); again != sample {
		t.Errorf("got %v once there is room, want the sample", again)
	}
}
