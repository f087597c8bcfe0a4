package consumer_test

import (
	"context"
	"fmt"
	"net"
	"slices"
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

func (d *dials) by(dial dialer) dialer {
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

// fetches counts the requests for records.
func (w *fleet) fetches() *atomic.Int64 {
	var requests atomic.Int64
	var last atomic.Pointer[kmsg.FetchRequest]
	w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.UnknownServerError, Count: -1, When: func(r kmsg.Request) bool {
		req := r.(*kmsg.FetchRequest)
		if last.Swap(req) == req {
			return false // it is asked about each partition
		}
		requests.Add(1)
		return false
	}})
	return &requests
}

// A node with 300 partitions of one broker needs a few connections and a few
// requests a second, and sees a job in any of them at once.
func TestManyIdlePartitionsCostLittle(t *testing.T) {
	t.Parallel()
	const partitions, backlog = 300, 3000
	bubble(t, partitions, func(w *fleet) {
		requests := w.fetches()
		var d dials
		o := w.options()
		o.Dial = d.by(w.net.DialContext)
		n := w.start(o, settled)
		w.until("it is joined", func() bool { return len(n.c.Status().Partitions) == partitions })
		w.produce("jobs", slices.Repeat([]job.Record{keyed("k", "x")}, backlog)...) // its partition leaves the long poll, and comes back
		w.until("the backlog is handed out", func() bool { return len(n.values()) == backlog })
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
			w.until("it is handed out", func() bool { return len(n.values()) == backlog+i+1 })
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
	bubble(t, partitions, func(w *fleet) {
		n := w.start(w.options(), settled)
		w.until("it is joined", func() bool { return len(n.c.Status().Partitions) == partitions })
		p, err := consumer.NewProducer(consumer.ProducerOptions{Connection: w.options().Connection, Linger: 100 * time.Microsecond})
		w.ok(err)
		requests := w.fetches()
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

// A partition without room does not delay the others of its broker, and goes on as soon as
// it has room again.
func TestAFullPartitionStallsNoOther(t *testing.T) {
	t.Parallel()
	const jobs, size = 3000, 4000
	bubble(t, 2, func(w *fleet) {
		var read atomic.Int64
		o := w.options()
		o.Dial = countReads(w.net.DialContext, &read)
		keys := [2]string{keysOf(0, 2, 1)[0], keysOf(1, 2, 1)[0]}
		var stuck []job.Record
		for i := range jobs {
			stuck = append(stuck, job.Record{Key: []byte(keys[0]), Value: append(fmt.Appendf(nil, "stuck %d ", i), noise(byte(i), size)...)})
		}
		w.produce("jobs", stuck...)
		release := make(chan struct{})
		n := w.start(o, func(d *consumer.Delivery) {
			if d.Job.Partition == 0 {
				go func() { <-release; d.Done(consumer.Outcome{}) }()
				return
			}
			d.Done(consumer.Outcome{})
		})
		w.until("the first one is in flight", func() bool { return len(n.values()) == 1 })
		time.Sleep(time.Second)
		for i := range 10 {
			began := time.Now()
			w.produce("jobs", keyed(keys[1], fmt.Sprint("free ", i)))
			w.until("it is handed out", func() bool { return len(n.values()) == i+2 })
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Errorf("job %d of the other partition was handed out after %v, want at once", i, took)
			}
		}
		time.Sleep(time.Second)
		if got := read.Load(); got > jobs*size*2/3 {
			t.Errorf("got %d bytes read of a partition without room, want at most two thirds of %d", got, jobs*size)
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
	const partitions, each, size = 16, 10, 200_000
	bubble(t, partitions, func(w *fleet) {
		for p := range partitions {
			key := keysOf(p, partitions, 1)[0]
			for range each {
				w.produce("jobs", keyed(key, string(noise('x', size))))
			}
		}
		var mu sync.Mutex
		var order []int
		// An answer takes time. Otherwise some partitions are read to their ends while others begin.
		w.cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			w.cluster.SleepControl(func() { time.Sleep(10 * time.Millisecond) })
			return nil, nil, false
		})
		n := w.start(w.options(), func(d *consumer.Delivery) {
			mu.Lock()
			order = append(order, d.Job.Partition)
			mu.Unlock()
			d.Done(consumer.Outcome{})
		})
		for p := range partitions {
			w.waitFor("jobs", p, each)
		}
		w.ok(n.end())
		// By then each partition could have had two.
		early := order[:2*partitions]
		for p := range partitions {
			if !slices.Contains(early, p) {
				t.Errorf("partition %d: got no job among the first %d, want one: %v", p, len(early), early)
			}
		}
	})
}

// Jobs that nobody takes fill the node's budget of bytes and no more, whatever the number of
// partitions, and each partition has its share.
func TestTheNodesBytesAreShared(t *testing.T) {
	t.Parallel()
	const partitions, each, size, budget = 16, 100, 10_000, 4 << 20
	bubble(t, partitions, func(w *fleet) {
		for p := range partitions {
			var jobs []job.Record
			for range each {
				jobs = append(jobs, keyed(keysOf(p, partitions, 1)[0], string(noise('x', size))))
			}
			for some := range slices.Chunk(jobs, 2) { // batches are fetched whole
				w.produce("jobs", some...)
			}
		}
		var read atomic.Int64
		o := w.options()
		o.BufferBytes, o.Workers = budget, 1
		o.Dial = countReads(w.net.DialContext, &read)
		n := w.idle(o)
		w.until("it is joined", func() bool { return len(n.c.Status().Partitions) == partitions })
		time.Sleep(5 * time.Second)
		held := read.Load()
		if least, most := int64(budget), int64(2*budget); held < least || held > most {
			t.Errorf("got %d bytes of %d read, want %d to %d", held, partitions*each*size, least, most)
		}
		go n.take(settled)
		for p := range partitions {
			w.waitFor("jobs", p, each)
		}
		w.ok(n.end())
	})
}

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// countReads counts the bytes that connections bring.
func countReads(dial dialer, read *atomic.Int64) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		return &readConn{Conn: c, read: read}, err
	}
}

type readConn struct {
	net.Conn
	read *atomic.Int64
}

func (c *readConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read.Add(int64(n))
	return n, err
}

// Partitions change their leaders, back and forth, while jobs come: each job is handed out
// once, without a wait for kafka-go's cache.
func TestPartitionsAreFollowedToTheirLeaders(t *testing.T) {
	t.Parallel()
	const partitions, rounds = 6, 10
	bubbleWith(t, partitions, func(w *fleet) {
		var d dials
		o := w.options()
		o.Dial = d.by(w.net.DialContext)
		n := w.start(o, settled)
		w.until("it is joined", func() bool { return len(n.c.Status().Partitions) == partitions })
		for i := range rounds {
			for p := range int32(partitions) {
				w.ok(w.cluster.MoveTopicPartition("jobs", p, (p+int32(i))%3))
			}
			for p := range partitions {
				w.produce("jobs", keyed(keysOf(p, partitions, 1)[0], fmt.Sprint(i, " ", p)))
			}
			w.within(500*time.Millisecond, "all are seen", func() bool { return len(n.values()) == (i+1)*partitions })
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
