package pacer

import (
	"testing"

	"github.com/alicebob/miniredis/v2"

	"dispatcher/consumer"
	"dispatcher/internal/redisclient"
	"dispatcher/throttle/throttletest"
)

// A pause holds no job that has a slot: the pacer puts those back that no worker has.
func TestAPausePutsAdmittedJobsBack(t *testing.T) {
	t.Parallel()
	rdb := redisclient.New(redisclient.Options{Addrs: []string{miniredis.RunT(t).Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	lim, slots := throttletest.GivenUp(t, rdb, 3)
	s := &shelf{}
	p := New(Options{Jobs: s, Connections: alwaysReady{}, Limiter: lim, Places: NewPlaces()})
	p.items = make(chan Item, len(slots))
	var block []Item
	for _, slot := range slots {
		block = append(block, Item{Delivery: &consumer.Delivery{}, Slot: slot})
	}
	p.blocks <- block
	close(p.blocks)
	p.giveToWorkers(t.Context())
	if len(p.items) != 0 || len(p.o.Places) != 0 || s.n.Load() != int64(len(block)) {
		t.Errorf("got %d jobs with workers, %d places in use and %d jobs put back, want 0, 0 and %d", len(p.items), len(p.o.Places), s.n.Load(), len(block))
	}
}
