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

func newBench(lanes ...*Lane) *bench {
	return &bench{New(Options{
		Lanes: lanes, Order: OrderKey, BufferBytes: 64 << 20, MaxAsleep: 1 << 14, MaxAsleepBytes: 64 << 20, Log: slog.New(slog.DiscardHandler),
	})}
}

// partition adds one to an assignment.
func (b *bench) partition(a *Assignment, l *Lane, id int) *Partition {
	p := b.NewPartition(a, &Source{Topic: l.name, JobTopic: l.name, Lane: l}, PartitionOptions{ID: id, Tracker: offsets.NewTracker(0)})
	b.Open(a, []*Partition{p})
	return p
}

// bring adds jobs with these keys behind what was fetched; 0: no key.
func (b *bench) bring(p *Partition, keys ...uint64) {
	next := p.fetched + int64(len(keys))
	batch := &Batch{Jobs: make([]Delivery, len(keys)), Bytes: len(keys) * jobBytes, Next: next, Stable: next}
	for i, key := range keys {
		d := &batch.Jobs[i]
		d.Job = job.Job{Record: job.Record{Topic: p.src.Topic, Partition: p.id, Offset: p.fetched + int64(i)}}
		Prepare(d, p, Prepared{Key: key, Size: jobBytes})
	}
	b.Add(p, batch)
}

const jobBytes = 512

// What is ready and in hand stays below the limit, but for samples; keys keep their
// order, also while their jobs sleep and where samples are taken; the oldest job is the one at the commit point, and a drain leaves nothing behind that was not taken, whatever came before.
func TestSchedulerUnderAnyWork(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := &Lane{name: "default", limit: rapid.IntRange(1, 6).Draw(t, "limit")}
		w := newBench(l)
		a := NewAssignment()
		parts := []*Partition{w.partition(a, l, 0), w.partition(a, l, 1)}
		w.opts.MaxAsleep = rapid.IntRange(1, 6).Draw(t, "most asleep")
		var held, asleep []*Delivery
		samples := map[*Delivery]bool{}
		last := map[string]int64{}
		done := 0
		t.Repeat(map[string]func(*rapid.T){
			"bring": func(t *rapid.T) {
				keys := rapid.SliceOfN(rapid.Uint64Range(0, 3), 0, 10).Draw(t, "keys")
				w.bring(parts[rapid.IntRange(0, 1).Draw(t, "partition")], keys...)
			},
			"take": func(t *rapid.T) {
				waits := w.Waiting()
				d := w.Take()
				if (d == nil) != (waits == 0) {
					t.Fatalf("got job %v while %d wait", d, waits)
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
				} else if n := w.Waiting(); n > 0 {
					t.Fatalf("got no sample of %d jobs that wait", n)
				}
			},
			"sleep": func(t *rapid.T) {
				if len(held) == 0 {
					return
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				late := held[i].timedOutNow()
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
				if held[i].key != 0 && !held[i].timedOutNow() {
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
				if !held[i].timedOutNow() {
					done++
				}
				held[i].Done()
				delete(samples, held[i])
				held = append(held[:i], held[i+1:]...)
			},
			"time out": func(t *rapid.T) {
				if len(held) == 0 {
					return
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				if d := rapid.SampledFrom(held).Draw(t, "which"); !d.timedOutNow() {
					w.timeOut(d, time.Now())
				}
			},
			"write the rejected": func(*rapid.T) {
				for _, d := range w.Rejected(a) {
					w.Recorded(d, true)
					done++
				}
			},
			"": func(t *rapid.T) {
				if l.inFlight != len(held) || l.inFlight+l.count > l.limit+len(samples) {
					t.Fatalf("got %d in hand and %d ready, want %d and at most %d", l.inFlight, l.count, len(held), l.limit)
				}
				if w.asleep != len(asleep) || w.asleepBytes != len(asleep)*jobBytes || w.sleepersFull() != (len(asleep) >= w.opts.MaxAsleep) {
					t.Fatalf("got %d asleep in %d bytes, want %d", w.asleep, w.asleepBytes, len(asleep))
				}
				for _, p := range parts {
					if (p.oldest == nil) != (p.tracker.Open() == 0) || p.oldest != nil && p.oldest.Job.Offset != p.tracker.Low() {
						t.Fatalf("got %+v for the oldest, want offset %d, one of %d", p.oldest, p.tracker.Low(), p.tracker.Open())
					}
				}
			},
		})
		w.Drain(a)
		if w.Take() != nil || w.TakeSample() != nil || w.asleep != 0 || l.first != nil && l.first.hasSome() {
			t.Fatal("something is left after the drain")
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
		t.Fatalf("got offset %d of key %s after %d", d.Job.Offset, name, before)
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
	a := NewAssignment()
	w.bring(w.partition(a, l, 0), 0, 0)
	w.bring(w.partition(a, l, 1), 0, 0, 0)
	w.Take().Sleep(SleepOptions{Until: time.Now().Add(time.Hour), WakeEarly: true, Failed: true})
	if d := w.Take(); d != nil {
		t.Fatalf("got %v while as many sleep as may, want nothing", d)
	}
	w.Wake()
	handled := map[int]int{}
	for d := w.Take(); d != nil; d = w.Take() {
		handled[d.part.id]++
		d.Done()
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
	a, b := NewAssignment(), NewAssignment()
	w.bring(w.partition(a, l, 0), 0, 0, 0, 0)
	w.bring(w.partition(b, l, 1), 0, 0)
	w.Drain(a)
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
		p := w.partition(NewAssignment(), l, 0)
		key := uint64(0)
		if order == OrderPartition {
			key = 1
		}
		w.bring(p, key, key, key, key, key, key, key, key)
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
			d.Done()
		}
		if !slices.Equal(got, want) {
			t.Errorf("order %s: got %v, want %v", order, got, want)
		}
	}
}

func (d *Delivery) timedOutNow() bool { return d.state == timedOut || d.state == abandoned }
