package order_test

import (
	"testing"

	"pgregory.net/rapid"

	"dispatcher/consumer/internal/linked"
	"dispatcher/consumer/internal/order"
)

type item struct {
	bytes int
	place order.Place[item]
}

type links struct{}

func (links) Place(one *item) *order.Place[item] { return &one.place }
func (links) Bytes(one *item) int                { return one.bytes }

// Whatever joins and leaves: the first of a key may go, and the others in the order in which they joined, one when the one before it is
// settled. Behind a job that was not settled none goes.
func TestJobsOfAKeyGoOneAtATime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		queues := order.NewQueues[item, links]()
		queued := map[uint64][]*item{} // of each key: the first job, and those behind it
		closed := map[uint64]bool{}
		key := rapid.Uint64Range(0, 3)
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				name := key.Draw(t, "key")
				one := &item{bytes: rapid.IntRange(1, 9).Draw(t, "bytes"), place: order.NewPlace[item](name)}
				mayGo, previous := queues.Join(one)
				line := queued[name]
				switch {
				case name == 0 || len(line) == 0 && !closed[name]:
					if !mayGo || previous != nil {
						t.Fatalf("got may go %v and previous %p for key %d, want it to be the first", mayGo, previous, name)
					}
				case closed[name]:
					if mayGo || previous != nil || one.place.Joined() {
						t.Fatalf("got may go %v, previous %p and joined %v, want none: key %d is closed", mayGo, previous, one.place.Joined(), name)
					}
				default:
					if last := line[len(line)-1]; mayGo || previous != last || last.place.Behind() != one {
						t.Fatalf("got may go %v and previous %p for key %d, want it to wait behind the last one, %p", mayGo, previous, name, last)
					}
				}
				if name != 0 && !closed[name] {
					queued[name] = append(line, one)
				}
			},
			"join again": func(t *rapid.T) {
				name := key.Draw(t, "key")
				if len(queued[name]) == 0 {
					return
				}
				if mayGo, previous := queues.Join(queued[name][0]); !mayGo || previous != nil {
					t.Fatalf("got may go %v and previous %p for the job that holds key %d, want it to go", mayGo, previous, name)
				}
			},
			"leave": func(t *rapid.T) {
				name, settled := key.Draw(t, "key"), rapid.Bool().Draw(t, "settled")
				line := queued[name]
				if len(line) == 0 {
					return
				}
				var want *item
				if queued[name] = line[1:]; !settled {
					queued[name], closed[name] = nil, true
				} else if len(line) > 1 {
					want = line[1]
				}
				if next := queues.Leave(line[0], settled); next != want || line[0].place.Behind() != nil {
					t.Fatalf("got %p behind a job of key %d, settled %v, which keeps %p; want %p, and that it keeps none", next, name, settled, line[0].place.Behind(), want)
				}
			},
			"leave without a queue": func(t *rapid.T) {
				one := &item{place: order.NewPlace[item](key.Draw(t, "key"))}
				if next := queues.Leave(one, rapid.Bool().Draw(t, "settled")); next != nil {
					t.Fatalf("got %p behind a job that has not joined, want none", next)
				}
			},
			"": func(t *rapid.T) {
				var want linked.Volume
				for _, line := range queued {
					for _, one := range line[min(1, len(line)):] {
						want.Plus(one.bytes)
					}
				}
				if got := queues.Waiting(); got != want {
					t.Fatalf("got %+v that wait, want %+v", got, want)
				}
			},
		})
	})
}

// A job of queues that have ended leaves none behind it.
func TestNoneGoesAfterTheEnd(t *testing.T) {
	t.Parallel()
	queues := order.NewQueues[item, links]()
	first, second := &item{place: order.NewPlace[item](1)}, &item{place: order.NewPlace[item](1)}
	queues.Join(first)
	queues.Join(second)
	queues = order.Queues[item, links]{}
	if next := queues.Leave(first, true); next != nil {
		t.Errorf("got %v, want none", next)
	}
}

func TestKeysNameQueues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		by        order.Order
		key       string
		fromRetry bool
		want      bool // a queue of the key's own
		all       bool // the queue of the partition
	}{
		{order.Key, "a", false, true, false},
		{order.Key, "a", true, true, false},
		{order.Key, "", false, false, false},
		{order.Partition, "a", false, false, true},
		{order.Partition, "", false, false, true},
		{order.Partition, "a", true, false, false},
		{order.None, "a", false, false, false},
	} {
		keys := order.NewKeys(c.by)
		got, other := keys.Of([]byte(c.key), c.fromRetry), keys.Of([]byte("another"), c.fromRetry)
		if again := keys.Of([]byte(c.key), c.fromRetry); again != got {
			t.Errorf("order %s, key %q: got queue %d and then %d, want one", c.by, c.key, got, again)
		}
		if own, all := got != 0 && got != other, got != 0 && got == other; own != c.want || all != c.all {
			t.Errorf("order %s, key %q, retry topic %v: got queue %d, and %d for another key", c.by, c.key, c.fromRetry, got, other)
		}
	}
}
