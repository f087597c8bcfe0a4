package consumer_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/job"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// dials counts the open connections to each address.
type dials struct {
	mu   sync.Mutex
	open map[string]int
	most map[string]int
}

type countedConn struct {
	net.Conn
	close func()
}

func (c *countedConn) Close() error {
	c.close()
	return c.Conn.Close()
}

func (d *dials) by(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	d.open, d.most = map[string]int{}, map[string]int{}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		d.count(addr, 1)
		return &countedConn{Conn: c, close: sync.OnceFunc(func() { d.count(addr, -1) })}, nil
	}
}

func (d *dials) count(addr string, by int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[addr] += by
	d.most[addr] = max(d.most[addr], d.open[addr])
}

// fetches counts the requests for records, and the partitions that they name.
func (w *world) fetches() (requests, partitions *atomic.Int64) {
	requests, partitions = &atomic.Int64{}, &atomic.Int64{}
	var last atomic.Pointer[kmsg.FetchRequest]
	w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.UnknownServerError, Count: -1, When: func(r kmsg.Request) bool {
		req := r.(*kmsg.FetchRequest)
		if last.Swap(req) == req {
			return false // it is asked about each partition
		}
		requests.Add(1)
		for _, t := range req.Topics {
			partitions.Add(int64(len(t.Partitions)))
		}
		return false
	}})
	return requests, partitions
}

// A node with 300 partitions of one broker needs a few connections and a few
// requests a second, and sees a job in any of them at once.
func TestManyIdlePartitionsCostLittle(t *testing.T) {
	t.Parallel()
	const partitions = 300
	bubble(t, partitions, func(w *world) {
		requests, _ := w.fetches()
		var d dials
		o := w.options()
		o.Dial = d.by(w.net.DialContext)
		n := w.start(o, (*consumer.Delivery).Done)
		w.until("it is joined", func() bool { return len(n.c.Status().Partitions) == partitions })
		time.Sleep(time.Second)
		before := requests.Load()
		time.Sleep(10 * time.Second)
		if got := requests.Load() - before; got > 45 {
			t.Errorf("got %d fetches in 10 s without a job, want at most 45", got)
		}
		d.mu.Lock()
		if got := d.most[broker]; got > 10 {
			t.Errorf("got %d connections at once, want at most 10", got)
		}
		d.mu.Unlock()
		for i := range 20 {
			began := time.Now()
			w.produce("jobs", job.Record{Key: fmt.Append(nil, i), Value: []byte("x")})
			w.until("it is handed out", func() bool { return len(n.values()) == i+1 })
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Errorf("job %d was handed out after %v, want at once", i, took)
			}
		}
		w.ok(n.end())
	})
}

// Jobs that come one by one do not cost a request about all partitions each.
func TestATrickleIsFetchedInHandfuls(t *testing.T) {
	t.Parallel()
	const partitions, jobs = 300, 1000
	bubble(t, partitions, func(w *world) {
		n := w.start(w.options(), (*consumer.Delivery).Done)
		w.until("it is joined", func() bool { return len(n.c.Status().Partitions) == partitions })
		p, err := consumer.NewProducer(consumer.ProducerOptions{Connection: w.options().Connection, Linger: 100 * time.Microsecond})
		w.ok(err)
		requests, _ := w.fetches()
		for i := range jobs {
			w.ok(p.WriteBatch(w.t.Context(), "jobs", []job.Record{{Key: fmt.Append(nil, i), Value: []byte("x")}}))
			time.Sleep(time.Millisecond)
		}
		w.until("all are seen", func() bool { return len(n.values()) == jobs })
		if got := requests.Load(); got > jobs/2 {
			t.Errorf("got %d requests for %d jobs, want at most half as many", got, jobs)
		}
		w.ok(p.Close())
		w.ok(n.end())
	})
}

// A partition that has no room left does not hold up the others of its broker,
// and goes on as soon as it has room again.
func TestAFullPartitionStallsNoOther(t *testing.T) {
	t.Parallel()
	const jobs = 3000
	bubble(t, 2, func(w *world) {
		keys := [2]string{keysOf(0, 2, 1)[0], keysOf(1, 2, 1)[0]}
		var stuck []job.Record
		for i := range jobs {
			stuck = append(stuck, job.Record{Key: []byte(keys[0]), Value: fmt.Appendf(nil, "stuck %d %s", i, strings.Repeat("x", 4000))})
		}
		w.produce("jobs", stuck...)
		release := make(chan struct{})
		n := w.start(w.options(), func(d *consumer.Delivery) {
			if d.Job.Partition == 0 {
				go func() { <-release; d.Done() }()
				return
			}
			d.Done()
		})
		w.until("the first one is in hand", func() bool { return len(n.values()) == 1 })
		time.Sleep(time.Second)
		_, named := w.fetches()
		for i := range 10 {
			began := time.Now()
			w.produce("jobs", keyed(keys[1], fmt.Sprint("free ", i)))
			w.until("it is handed out", func() bool { return len(n.values()) == i+2 })
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Errorf("job %d of the other partition was handed out after %v, want at once", i, took)
			}
		}
		time.Sleep(time.Second)
		if got, most := named.Load(), int64(40); got > most {
			t.Errorf("got partitions named %d times, want at most %d: the full one is left out", got, most)
		}
		began := time.Now()
		close(release)
		w.waitFor("jobs", 0, jobs)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the full partition took %v for the rest, want no wait for a long poll", took)
		}
		w.ok(n.end())
	})
}

// An answer holds a bounded number of bytes. No partition goes without for long.
func TestNoPartitionStarvesBesideLargeOnes(t *testing.T) {
	t.Parallel()
	const partitions, each, size = 8, 20, 200_000
	bubble(t, partitions, func(w *world) {
		for p := range partitions {
			key := keysOf(p, partitions, 1)[0]
			for range each {
				w.produce("jobs", keyed(key, strings.Repeat("x", size)))
			}
		}
		var mu sync.Mutex
		var order []int
		n := w.start(w.options(), func(d *consumer.Delivery) {
			mu.Lock()
			order = append(order, d.Job.Partition)
			mu.Unlock()
			d.Done()
		})
		for p := range partitions {
			w.waitFor("jobs", p, each)
		}
		w.ok(n.end())
		// After so many jobs as two answers hold for each, all have been met.
		early := order[:2*partitions*2]
		for p := range partitions {
			if !slices.Contains(early, p) {
				t.Errorf("partition %d was not met in the first %d jobs: %v", p, len(early), early)
			}
		}
	})
}

// Partitions change their leaders, back and forth, while jobs come: each is
// handed out once, without a wait for kafka-go's cache.
func TestPartitionsAreFollowedToTheirLeaders(t *testing.T) {
	t.Parallel()
	const partitions, rounds = 6, 10
	bubbleWith(t, partitions, func(w *world) {
		var d dials
		o := w.options()
		o.Dial = d.by(w.net.DialContext)
		n := w.start(o, (*consumer.Delivery).Done)
		w.until("it is joined", func() bool { return len(n.c.Status().Partitions) == partitions })
		for i := range rounds {
			for p := range int32(partitions) {
				w.ok(w.cluster.MoveTopicPartition("jobs", p, (p+int32(i))%3))
			}
			for p := range partitions {
				w.produce("jobs", keyed(keysOf(p, partitions, 1)[0], fmt.Sprint(i, " ", p)))
			}
			w.within(2*time.Second, "all are seen", func() bool { return len(n.values()) == (i+1)*partitions })
		}
		for p := range partitions {
			w.waitFor("jobs", p, rounds)
		}
		w.ok(n.end())
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.most) != 3 {
			t.Errorf("got connections to %v, want three brokers", d.most)
		}
		for addr, most := range d.most {
			if most > 10 {
				t.Errorf("got %d connections at once to %s, want at most 10", most, addr)
			}
		}
	}, []kfake.Opt{kfake.NumBrokers(3), kfake.Ports(9092, 9093, 9094)})
}
