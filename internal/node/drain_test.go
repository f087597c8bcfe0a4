package node

import (
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dispatcher/internal/node/pacer"
	"dispatcher/sender"
)

// Slots that a node holds when it gives its partitions up count on the limit whether they are used or not. So the node uses them,
// and reserves no others. Without time for that it drops their jobs. No job is called twice.
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
