package consumer_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/consumer"
	"dispatcher/job"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const broker = "localhost:9092"

// fleet is a set of consumers on a fake cluster, on a network without sockets, for tests in a
// bubble of testing/synctest.
type fleet struct {
	t       *testing.T
	net     *kfake.VirtualNetwork
	cluster *kfake.Cluster
	client  *kafka.Client
	nodes   []*node
}

func bubble(t *testing.T, partitions int32, test func(w *fleet), topics ...string) {
	t.Helper()
	bubbleWith(t, partitions, test, nil, topics...)
}

// bubbleWith is bubble on a cluster with options of its own.
func bubbleWith(t *testing.T, partitions int32, test func(w *fleet), opts []kfake.Opt, topics ...string) {
	t.Helper()
	if len(topics) == 0 {
		topics = []string{"jobs"}
	}
	synctest.Test(t, func(t *testing.T) {
		n := &kfake.VirtualNetwork{}
		opts = append([]kfake.Opt{
			kfake.ListenFn(n.Listen), kfake.Ports(9092), kfake.NumBrokers(1), kfake.SeedTopics(partitions, topics...),
		}, opts...)
		cl, err := kfake.NewCluster(opts...)
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		tr := &kafka.Transport{Dial: n.DialContext}
		defer tr.CloseIdleConnections()
		w := &fleet{t: t, net: n, cluster: cl, client: &kafka.Client{Addr: kafka.TCP(broker), Transport: tr}}
		defer w.endAll()
		test(w)
	})
}

func (w *fleet) options() consumer.Options {
	return consumer.Options{
		Connection: consumer.Connection{Brokers: []string{broker}, Dial: w.net.DialContext},
		Group:      "g", Topics: []string{"jobs"}, CreateTopics: true,
	}
}

// produce writes values; a value "k:v" has the key k.
func (w *fleet) produce(topic string, records ...job.Record) {
	w.t.Helper()
	p, err := consumer.NewProducer(consumer.ProducerOptions{Connection: consumer.Connection{Brokers: []string{broker}, Dial: w.net.DialContext}})
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { w.ok(p.Close()) }()
	w.ok(p.WriteBatch(w.t.Context(), topic, records))
}

func (w *fleet) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// numbered are records without a key whose values are from to to-1.
func numbered(from, to int) []job.Record {
	var all []job.Record
	for i := from; i < to; i++ {
		all = append(all, job.Record{Value: []byte(strconv.Itoa(i))})
	}
	return all
}

// node is one consumer that runs until it is stopped.
type node struct {
	w    *fleet
	c    *consumer.Consumer
	stop context.CancelFunc
	err  chan error    // what Run returned
	over chan struct{} // Run has returned

	mu   sync.Mutex
	seen []string // values, as they were handed out
	held []*consumer.Delivery
}

// start runs a node that calls work for each job, in the taker's goroutine; nil: the jobs are
// held.
func (w *fleet) start(o consumer.Options, work func(*consumer.Delivery)) *node {
	w.t.Helper()
	n := w.idle(o)
	go n.take(work)
	return n
}

// idle runs a node whose jobs nobody takes.
func (w *fleet) idle(o consumer.Options) *node {
	w.t.Helper()
	c, err := consumer.New(o)
	w.ok(err)
	ctx, stop := context.WithCancel(context.Background())
	n := &node{w: w, c: c, stop: stop, err: make(chan error, 1), over: make(chan struct{})}
	go func() { n.err <- c.Run(ctx); close(n.over) }()
	w.nodes = append(w.nodes, n)
	return n
}

func (n *node) take(work func(*consumer.Delivery)) {
	for d := range taken(n.c) {
		if d.Context().Err() != nil {
			d.Release()
			continue
		}
		n.mu.Lock()
		n.seen = append(n.seen, string(d.Job.Value))
		if work == nil {
			n.held = append(n.held, d)
		}
		n.mu.Unlock()
		if work != nil {
			work(d)
		}
	}
}

// taken are the jobs of a consumer until its end.
func taken(c *consumer.Consumer) iter.Seq[*consumer.Delivery] {
	return func(yield func(*consumer.Delivery) bool) {
		for range c.Ready() {
			for d := c.Take(); d != nil; d = c.Take() {
				if !yield(d) {
					return
				}
			}
		}
	}
}

// endAll ends the nodes that a failed test left running.
func (w *fleet) endAll() {
	for _, n := range w.nodes {
		n.stop()
		<-n.over
	}
}

// end stops a node and returns what Run returned.
func (n *node) end() error {
	n.stop()
	return <-n.err
}

func (n *node) values() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.seen)
}

// holding returns the jobs that are held, once there are at least count.
func (n *node) holding(count int) []*consumer.Delivery {
	n.w.t.Helper()
	n.w.until(fmt.Sprintf("%d jobs in flight", count), func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.held) >= count
	})
	return n.grab()
}

// grab returns the jobs that are held now.
func (n *node) grab() []*consumer.Delivery {
	n.mu.Lock()
	defer n.mu.Unlock()
	held := n.held
	n.held = nil
	return held
}

// until lets the bubble's time pass until is returns true, a minute at most.
func (w *fleet) until(what string, is func() bool) {
	w.t.Helper()
	w.within(time.Minute, what, is)
}

// within is until with a time of its own.
func (w *fleet) within(most time.Duration, what string, is func() bool) {
	w.t.Helper()
	for range most / (10 * time.Millisecond) {
		synctest.Wait()
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.t.Fatalf("%v passed and not yet: %s", most, what)
}

// committed returns a partition's committed offset and metadata.
func (w *fleet) committed(topic string, partition int) (int64, string) {
	w.t.Helper()
	res, err := w.client.OffsetFetch(w.t.Context(), &kafka.OffsetFetchRequest{GroupID: "g." + topic, Topics: map[string][]int{topic: {partition}}})
	w.ok(err)
	if errors.Is(res.Error, kafka.GroupIdNotFound) {
		return -1, ""
	}
	w.ok(res.Error)
	p := res.Topics[topic][0]
	w.ok(p.Error)
	return p.CommittedOffset, p.Metadata
}

// letters reads all dead letters of a topic with one partition.
func (w *fleet) letters(topic string) []kafka.Message {
	w.t.Helper()
	return w.records(topic + ".dlq")
}

// records reads all records of a topic with one partition.
func (w *fleet) records(topic string) []kafka.Message {
	w.t.Helper()
	res, err := w.client.Fetch(w.t.Context(), &kafka.FetchRequest{Topic: topic, MinBytes: 0, MaxBytes: 64 << 20, MaxWait: 10 * time.Millisecond})
	w.ok(err)
	w.ok(res.Error)
	var all []kafka.Message
	for {
		rec, err := res.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			return all
		}
		w.ok(err)
		key, err := kafka.ReadAll(rec.Key)
		w.ok(err)
		value, err := kafka.ReadAll(rec.Value)
		w.ok(err)
		all = append(all, kafka.Message{Key: key, Value: value, Headers: rec.Headers})
	}
}

func headerMap(m kafka.Message) map[string]string {
	h := map[string]string{}
	for _, x := range m.Headers {
		h[x.Key] = string(x.Value)
	}
	return h
}

func sortedSet(lists ...[]string) (set []string, repeats int) {
	count := map[string]int{}
	for _, l := range lists {
		for _, v := range l {
			count[v]++
			if count[v] > 1 {
				repeats++
			}
		}
	}
	return slices.Sorted(maps.Keys(count)), repeats
}

// settleHeld settles the jobs that are held, as they come, until the node has ended.
func (n *node) settleHeld() {
	for {
		for _, d := range n.grab() {
			d.Done(consumer.Outcome{})
		}
		select {
		case <-n.over:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// noise is text that no compression makes much smaller. It begins with a letter, and is always
// the same for that letter.
func noise(of byte, size int) []byte {
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(uint64(of), 0))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	text := []byte(base64.RawStdEncoding.EncodeToString(b))[:size]
	text[0] = of
	return text
}

// refuse lets a topic take no batch larger than limit bytes.
func (w *fleet) refuse(topic string, limit int) *kfake.FaultHandle {
	return w.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.MessageTooLarge, Count: -1,
		When: func(r kmsg.Request) bool {
			return len(r.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records) > limit
		},
	})
}

// lossy dials a network on which the requests that lose picks never arrive. It
// is given their kind and their size in bytes.
func (w *fleet) lossy(lose func(key int16, size int) bool) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := w.net.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &lossyConn{Conn: c, lose: lose}, nil
	}
}

// lossyConn belongs to one writer at a time.
type lossyConn struct {
	net.Conn
	lose func(key int16, size int) bool
	rest int // bytes of the request that is being written
	lost bool
}

// Write relies on a client that writes a request's head in one piece.
func (c *lossyConn) Write(b []byte) (int, error) {
	if c.rest <= 0 && len(b) >= 6 {
		c.rest = int(binary.BigEndian.Uint32(b)) + 4
		c.lost = c.lost || c.lose(int16(binary.BigEndian.Uint16(b[4:])), c.rest)
	}
	c.rest -= len(b)
	if c.lost {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// commit sets an offset of a group that has no member.
func (w *fleet) commit(topic string, partition int, offset int64, metadata string) {
	w.t.Helper()
	res, err := w.client.OffsetCommit(w.t.Context(), &kafka.OffsetCommitRequest{
		GroupID: "g." + topic, GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: partition, Offset: offset, Metadata: metadata}}},
	})
	w.ok(err)
	w.ok(res.Topics[topic][0].Error)
}

// waitFor waits until so much of a partition is committed.
func (w *fleet) waitFor(topic string, partition int, offset int64) {
	w.t.Helper()
	w.until(fmt.Sprintf("offset %d of %s/%d is committed", offset, topic, partition), func() bool {
		got, _ := w.committed(topic, partition)
		return got == offset
	})
}

// partitionOf is where a key's records go.
func partitionOf(key string, partitions int) int {
	ids := make([]int, partitions)
	for i := range ids {
		ids[i] = i
	}
	return kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: []byte(key)}, ids...)
}

// keysOf are count keys whose records go to one partition.
func keysOf(partition, partitions, count int) []string {
	var keys []string
	for i := 0; len(keys) < count; i++ {
		if key := strconv.Itoa(i); partitionOf(key, partitions) == partition {
			keys = append(keys, key)
		}
	}
	return keys
}

// settled is a worker that settles each job at once.
func settled(d *consumer.Delivery) { d.Done(consumer.Outcome{}) }

// releasedLater is a worker that keeps each job until its partition is taken away or the node stops, and releases it then.
func releasedLater(d *consumer.Delivery) {
	go func() { <-d.Context().Done(); d.Release() }()
}
