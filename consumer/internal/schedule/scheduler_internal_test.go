package schedule

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"dispatcher/consumer/internal/offsets"

	"dispatcher/job"

	"pgregory.net/rapid"
)

// bench is a scheduler with assignments and partitions, and no Kafka.
type bench struct{ *Scheduler }

// atOnce settles jobs without writing anything.
type atOnce struct{ Settler }

func (atOnce) Done(d *Delivery, _ Outcome) { LetGo(d, true) }

func newBench(lanes ...*Lane) *bench {
	return &bench{New(Options{
		Lanes: lanes, Order: OrderKey, BufferBytes: 64 << 20, MaxAsleep: 1 << 14, MaxAsleepBytes: 64 << 20,
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
	batch := &Batch{Jobs: make([]Delivery, len(keys)), Bytes: len(keys) * jobBytes, Next: next, Stable: next}
	for i, key := range keys {
		d := &batch.Jobs[i]
		d.Job = job.Job{Record: job.Record{Topic: p.src.Topic, Partition: p.id, Offset: p.fetched + int64(i)}}
		if key != 0 {
			d.Job.Key = []byte{key}
		}
		Prepare(d, p, Prepared{Size: jobBytes})
	}
	p.Add(batch)
}

const jobBytes = 512

// After any sequence of calls: the jobs that are ready and in flight stay within the limit,
// but for samples. Keys keep their order, also while their jobs sleep and where samples are
// taken. The oldest job is the one at the committed offset. A drain drops all jobs that were
// not taken.
func TestSchedulerUnderAnyWork(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := &Lane{name: "default", limit: rapid.IntRange(1, 6).Draw(t, "limit")}
		w := newBench(l)
		a := w.NewAssignment()
		parts := []*Partition{partition(a, l, 0), partition(a, l, 1)}
		w.opts.MaxAsleep = rapid.IntRange(1, 6).Draw(t, "most asleep")
		var held, asleep []*Delivery
		samples := map[*Delivery]bool{}
		last := map[string]int64{}
		done := 0
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				keys := rapid.SliceOfN(rapid.ByteRange(0, 3), 0, 10).Draw(t, "keys")
				addJobs(parts[rapid.IntRange(0, 1).Draw(t, "partition")], keys...)
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
				inOrder(t, last, d)
			},
			"sample": func(t *rapid.T) {
				if d := w.TakeSample(); d != nil {
					held, samples[d] = append(held, d), true
					inOrder(t, last, d)
				} else if n := w.ReadyJobs(); n > 0 {
					t.Fatalf("got no sample of %d jobs that wait, want one", n)
				}
			},
			"sleep": func(t *rapid.T) {
				if len(held) == 0 {
					return
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				late := held[i].state.late()
				held[i].Sleep(SleepOptions{Until: time.Now().Add(time.Hour), WakeEarly: true, Failed: true, Memo: 1})
				if !late {
					asleep = append(asleep, held[i])
				}
				delete(samples, held[i])
				held = append(held[:i], held[i+1:]...)
			},
			"requeue": func(t *rapid.T) {
				if len(held) == 0 {
					return
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				if held[i].key != 0 && !held[i].state.late() {
					last[keyOf(held[i])]-- // it comes again
				}
				held[i].Requeue()
				delete(samples, held[i])
				held = append(held[:i], held[i+1:]...)
			},
			"wake": func(*rapid.T) {
				w.Wake()
				asleep = nil
			},
			"settle": func(t *rapid.T) {
				if len(held) == 0 {
					return
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				if !held[i].state.late() {
					done++
				}
				held[i].Done(Outcome{})
				delete(samples, held[i])
				held = append(held[:i], held[i+1:]...)
			},
			"time out": func(t *rapid.T) {
				if len(held) == 0 {
					return
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				if d := rapid.SampledFrom(held).Draw(t, "which"); !d.state.late() {
					w.timeOut(d, time.Now())
				}
			},
			"write the diverted": func(*rapid.T) {
				for _, d := range a.Diverted() {
					Recorded(d, true)
					done++
				}
			},
			"": func(t *rapid.T) {
				if l.inFlight != len(held) || l.inFlight+l.ready.jobs > l.limit+len(samples) {
					t.Fatalf("got %d in flight and %d ready, want %d in flight and at most %d together", l.inFlight, l.ready.jobs, len(held), l.limit)
				}
				if w.asleep != len(asleep) || w.asleepBytes != len(asleep)*jobBytes || w.sleepersFull() != (len(asleep) >= w.opts.MaxAsleep) {
					t.Fatalf("got %d asleep in %d bytes, want %d", w.asleep, w.asleepBytes, len(asleep))
				}
				for _, p := range parts {
					if (p.open.oldest == nil) != (p.tracker.Open() == 0) || p.open.oldest != nil && p.open.oldest.Job.Offset != p.tracker.Low() {
						t.Fatalf("got %+v for the oldest, want offset %d, one of %d", p.open.oldest, p.tracker.Low(), p.tracker.Open())
					}
				}
			},
		})
		a.Drain()
		if w.Take() != nil || w.TakeSample() != nil || w.asleep != 0 || l.first != nil && l.first.hasSome() {
			t.Fatalf("got ready jobs, or %d asleep, after the drain; want none", w.asleep)
		}
		for _, d := range held {
			d.Release()
		}
		<-a.Idle()
		complete := int64(0)
		for _, p := range parts {
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

// inOrder fails the test for a job that came before an earlier one of its key, or
// again without having slept.
func inOrder(t *rapid.T, last map[string]int64, d *Delivery) {
	t.Helper()
	if d.key == 0 {
		return
	}
	name := keyOf(d)
	if before, ok := last[name]; ok && (before > d.Job.Offset || before == d.Job.Offset && !d.failed) {
		t.Fatalf("got offset %d of key %s after %d, want a later one", d.Job.Offset, name, before)
	}
	last[name] = d.Job.Offset
}

func keyOf(d *Delivery) string { return fmt.Sprint(d.part.id, "/", d.key) }

// When fewer jobs sleep than may, partitions that were passed over meanwhile go on.
func TestPartitionsGoOnWhenFewerSleep(t *testing.T) {
	t.Parallel()
	l := &Lane{name: "default", limit: 1}
	w := newBench(l)
	w.opts.MaxAsleep = 1
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

// Ready jobs of a partition that goes away make room for those of others.
func TestADrainMakesRoomForOthers(t *testing.T) {
	t.Parallel()
	l := &Lane{name: "default", limit: 4}
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
	for order, want := range map[Order][]int64{OrderNone: {4, 0, 5, 1, 6, 2, 7, 3}, OrderPartition: {0, 1, 2, 3, 4, 5, 6, 7}} {
		l := &Lane{name: "default", limit: 1}
		w := newBench(l)
		w.opts.Order = order
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
			t.Errorf("order %s: got %v, want %v", order, got, want)
		}
	}
}
