package consumer

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"dispatcher/consumer/internal/broker"

	"dispatcher/consumer/internal/offsets"

	"dispatcher/job"

	"pgregory.net/rapid"
)

// workshop is a hub with assignments and partitions, and no Kafka.
type workshop struct {
	hub *hub
}

func newWorkshop(lanes ...*lane) *workshop {
	o := &Options{Order: OrderKey}
	o.setDefaults()
	return &workshop{hub: newHub(lanes, o)}
}

func (w *workshop) assignment() *assignment {
	a := &assignment{idle: make(chan struct{}), doom: make(chan struct{}, 1)}
	a.ctx, a.cancel = context.WithCancelCause(context.Background())
	return a
}

// partition adds one to an assignment.
func (w *workshop) partition(a *assignment, l *lane, id int) *partition {
	p := &partition{
		feed: &feed{topic: l.name, of: l.name, lane: l}, hub: w.hub, asg: a, id: id,
		keys: make(map[uint64]*Delivery), tracker: offsets.NewTracker(0),
	}
	w.hub.open(a, []*partition{p})
	return p
}

// bring adds jobs with these keys behind what was fetched; 0: no key.
func (w *workshop) bring(p *partition, keys ...uint64) {
	b := &fetchedBatch{jobs: make([]Delivery, len(keys)), next: p.fetched + int64(len(keys)), stable: p.fetched + int64(len(keys))}
	for i, key := range keys {
		b.jobs[i] = Delivery{
			Job:  job.Job{Record: job.Record{Topic: p.topic, Partition: p.id, Offset: p.fetched + int64(i)}},
			part: p, key: key, size: broker.DeliveryBytes,
		}
		b.bytes += broker.DeliveryBytes
	}
	w.hub.add(p, b)
}

// What is ready and in hand stays below the limit, but for samples; keys keep their
// order, also while their jobs sleep and where samples are taken; the oldest job is the one at the commit point, and a drain leaves nothing behind that was not taken, whatever came before.
func TestHubUnderAnyWork(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := &lane{name: "default", limit: rapid.IntRange(1, 6).Draw(t, "limit")}
		w := newWorkshop(l)
		a := w.assignment()
		parts := []*partition{w.partition(a, l, 0), w.partition(a, l, 1)}
		w.hub.maxAsleep = rapid.IntRange(1, 6).Draw(t, "most asleep")
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
				waits := w.hub.waiting()
				d := w.hub.take()
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
				if d := w.hub.takeSample(); d != nil {
					held, samples[d] = append(held, d), true
					inOrder(t, last, d)
				} else if n := w.hub.waiting(); n > 0 {
					t.Fatalf("got no sample of %d jobs that wait", n)
				}
			},
			"sleep": func(t *rapid.T) {
				if len(held) == 0 {
					return
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				held[i].Sleep(SleepOptions{Until: time.Now().Add(time.Hour), WakeEarly: true, Failed: true, Memo: 1})
				if !held[i].timedOut {
					asleep = append(asleep, held[i])
				}
				delete(samples, held[i])
				held = append(held[:i], held[i+1:]...)
			},
			"put back": func(t *rapid.T) {
				if len(held) == 0 {
					return
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				if held[i].key != 0 && !held[i].timedOut {
					last[chainOf(held[i])]-- // it comes again
				}
				held[i].Requeue()
				delete(samples, held[i])
				held = append(held[:i], held[i+1:]...)
			},
			"wake": func(*rapid.T) {
				w.hub.wakeEarly()
				asleep = nil
			},
			"settle": func(t *rapid.T) {
				if len(held) == 0 {
					return
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				if !held[i].timedOut {
					done++
				}
				held[i].Done()
				delete(samples, held[i])
				held = append(held[:i], held[i+1:]...)
			},
			"expel": func(t *rapid.T) {
				if len(held) == 0 {
					return
				}
				w.hub.mu.Lock()
				defer w.hub.mu.Unlock()
				if d := rapid.SampledFrom(held).Draw(t, "which"); !d.timedOut {
					w.hub.expel(d, time.Now())
				}
			},
			"bury": func(*rapid.T) {
				for _, d := range w.hub.doomed(a) {
					w.hub.settle(d, true)
					done++
				}
			},
			"": func(t *rapid.T) {
				if l.inHand != len(held) || l.inHand+l.count > l.limit+len(samples) {
					t.Fatalf("got %d in hand and %d ready, want %d and at most %d", l.inHand, l.count, len(held), l.limit)
				}
				if w.hub.asleep != len(asleep) || w.hub.asleepBytes != len(asleep)*broker.DeliveryBytes || w.hub.crowded() != (len(asleep) >= w.hub.maxAsleep) {
					t.Fatalf("got %d asleep in %d bytes, want %d", w.hub.asleep, w.hub.asleepBytes, len(asleep))
				}
				for _, p := range parts {
					if (p.oldest == nil) != (p.tracker.Open() == 0) || p.oldest != nil && p.oldest.Job.Offset != p.tracker.Low() {
						t.Fatalf("got %+v for the oldest, want offset %d, one of %d", p.oldest, p.tracker.Low(), p.tracker.Open())
					}
				}
			},
		})
		w.hub.drain(a)
		if w.hub.take() != nil || w.hub.takeSample() != nil || w.hub.asleep != 0 || l.first != nil && l.first.hasSome() {
			t.Fatal("something is left after the drain")
		}
		for _, d := range held {
			d.Release()
		}
		<-a.idle
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
	name := chainOf(d)
	if before, ok := last[name]; ok && (before > d.Job.Offset || before == d.Job.Offset && !d.failed) {
		t.Fatalf("got offset %d of key %s after %d", d.Job.Offset, name, before)
	}
	last[name] = d.Job.Offset
}

func chainOf(d *Delivery) string { return fmt.Sprint(d.part.id, "/", d.key) }

// When fewer jobs sleep than may, partitions that were passed over meanwhile go on.
func TestPartitionsGoOnWhenFewerSleep(t *testing.T) {
	t.Parallel()
	l := &lane{name: "default", limit: 1}
	w := newWorkshop(l)
	w.hub.maxAsleep = 1
	a := w.assignment()
	w.bring(w.partition(a, l, 0), 0, 0)
	w.bring(w.partition(a, l, 1), 0, 0, 0)
	w.hub.take().Sleep(SleepOptions{Until: time.Now().Add(time.Hour), WakeEarly: true, Failed: true})
	if d := w.hub.take(); d != nil {
		t.Fatalf("got %v while as many sleep as may, want nothing", d)
	}
	w.hub.wakeEarly()
	handled := map[int]int{}
	for d := w.hub.take(); d != nil; d = w.hub.take() {
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
	l := &lane{name: "default", limit: 4}
	w := newWorkshop(l)
	a, b := w.assignment(), w.assignment()
	w.bring(w.partition(a, l, 0), 0, 0, 0, 0)
	w.bring(w.partition(b, l, 1), 0, 0)
	w.hub.drain(a)
	for range 2 {
		if d := w.hub.take(); d == nil || d.part.asg != b {
			t.Fatalf("got %v, want a job of the other assignment", d)
		}
	}
	if d := w.hub.take(); d != nil {
		t.Errorf("got %v, want nothing", d)
	}
}

// Retries whose time has come and fresh jobs go in turn, so that neither holds up
// the other. In partition order the retry is the only one that may go.
func TestRetriesTakeTurns(t *testing.T) {
	t.Parallel()
	for order, want := range map[Order][]int64{OrderNone: {4, 0, 5, 1, 6, 2, 7, 3}, OrderPartition: {0, 1, 2, 3, 4, 5, 6, 7}} {
		l := &lane{name: "default", limit: 1}
		w := newWorkshop(l)
		w.hub.order = order
		p := w.partition(w.assignment(), l, 0)
		key := uint64(0)
		if order == OrderPartition {
			key = 1
		}
		w.bring(p, key, key, key, key, key, key, key, key)
		for range 4 {
			if d := w.hub.take(); d != nil {
				d.Sleep(SleepOptions{Until: time.Now().Add(time.Hour), WakeEarly: true, Failed: true})
			}
		}
		first := w.hub.take() // it is ready already
		w.hub.wakeEarly()
		if first == nil {
			first = w.hub.take()
		}
		var got []int64
		for d := first; d != nil; d = w.hub.take() {
			got = append(got, d.Job.Offset)
			d.Done()
		}
		if !slices.Equal(got, want) {
			t.Errorf("order %s: got %v, want %v", order, got, want)
		}
	}
}
