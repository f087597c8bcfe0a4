package node

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dispatcher/consumer"
	"dispatcher/internal/node/pacer"
	"dispatcher/sender"
	"dispatcher/throttle"
)

// Slots that a node holds when it gives its partitions up count on the limit whether they are used or not. So the node uses them.
// Without time for that it drops their jobs. No job is called twice.
func TestADrainUsesTheSlotsThatAreOut(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(b *bubble) (goOn func()){
		"the node stops": func(b *bubble) func() {
			stopped := make(chan struct{})
			go func() { defer close(stopped); b.stop() }()
			return func() { <-stopped; b.start() }
		},
		"the group rebalances": func(b *bubble) func() {
			b.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.RebalanceInProgress})
			return func() {}
		},
	} {
		for _, slotTime := range []time.Duration{0, 300 * time.Millisecond} {
			t.Run(name+" with "+slotTime.String(), func(t *testing.T) {
				t.Parallel()
				s := setup{rate: 300, workers: 64, attempts: 3, failures: 20, slotTime: slotTime}
				s.answer = func(string, int) sender.Result { return accepted }
				inBubble(t, s, func(b *bubble) { drainUsesSlots(b, give) })
			})
		}
	}
}

// drainUsesSlots has a node give its partition up, by the function that returns how it goes on.
func drainUsesSlots(b *bubble, give func(b *bubble) func()) {
	const jobs, block = 900, 6 // a block of slots: those of 20 ms
	b.writeMany(jobs)
	b.until(time.Minute, "the node works", func() bool { return b.settled() > 100 })
	held := b.take() // while it is in flight, the drain lasts
	goOn := give(b)
	<-held.Context().Done()
	ended := time.Now()
	time.Sleep(time.Second)
	used, last := 0, time.Duration(0)
	for i := range jobs {
		for _, at := range b.called(strconv.Itoa(i)) {
			if at.After(ended.Add(pacer.MaxLead)) {
				used, last = used+1, max(last, at.Sub(ended))
			}
		}
	}
	most := 2 * block
	if b.slotTime == 0 {
		most = 0
	}
	if used > most || used == 0 && most > 0 || last > b.slotTime {
		b.Errorf("got %d slots used in the drain, the last one after %v, want some where there is time, and at most %d within %v", used, last, most, b.slotTime)
	}
	held.Release()
	goOn()
	b.until(time.Minute, "all jobs are settled", func() bool { return b.settled() == jobs })
	for i := range jobs {
		if n := len(b.called(strconv.Itoa(i))); n != 1 {
			b.Errorf("got %d calls of job %d, want one", n, i)
		}
	}
}

// A job that misses its slot in a drain waits for no other: the next owner calls it.
func TestAJobThatMissesItsSlotInADrainGetsNoOther(t *testing.T) {
	t.Parallel()
	draining(t, func(b *bubble, d *consumer.Delivery, s throttle.Slot) {
		time.Sleep(time.Until(s.NotAfter) + time.Millisecond)
		var got error
		b.handle(callerFunc(func(ctx context.Context, permit sender.Permit) sender.Result {
			if ctx.Err() != nil {
				t.Fatal("the time for slots is over, which proves nothing")
			}
			_, got = permit(ctx)
			return sender.Result{Kind: sender.NotSent, Err: got}
		}), d, s)
		if !errors.Is(got, consumer.ErrStopped) {
			t.Errorf("got %v for a permit, want %v", got, consumer.ErrStopped)
		}
	})
}

// A drain dials for no job that has no slot.
func TestADrainDialsForNoJobWithoutASlot(t *testing.T) {
	t.Parallel()
	draining(t, func(b *bubble, d *consumer.Delivery, _ throttle.Slot) {
		b.handle(callerFunc(func(ctx context.Context, _ sender.Permit) sender.Result {
			if err := context.Cause(ctx); !errors.Is(err, consumer.ErrStopped) {
				t.Errorf("got a context that ended with %v, want %v", err, consumer.ErrStopped)
			}
			return sender.Result{Kind: sender.NotSent, Err: context.Cause(ctx)}
		}), d, throttle.Slot{})
	})
}

// draining has a test play the worker of a job with a slot, on a node whose drain has just begun.
func draining(t *testing.T, test func(b *bubble, d *consumer.Delivery, s throttle.Slot)) {
	t.Helper()
	inBubble(t, setup{rate: 100, workers: 4, failures: 20, attempts: 3, order: consumer.OrderNone, slotTime: 300 * time.Millisecond}, func(b *bubble) {
		b.writeMany(1)
		d, s := b.take(), b.slot()
		stopped := make(chan struct{})
		go func() { defer close(stopped); b.stop() }()
		<-d.Context().Done()
		test(b, d, s)
		<-stopped
	})
}
