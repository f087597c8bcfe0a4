package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/segmentio/kafka-go"

	"dispatcher/internal/containers"
)

// servers is what all scenarios of a test share: the servers and the binaries.
type servers struct {
	kafka, redis *containers.Server
	rdb          *redis.Client
	dispatcher   string // path of the binary
	provider     string
	replicas     int // of each topic
	scenarios    atomic.Int64
	shared       bool // other servers work at the same time, so the machine is never quiet
}

func startServers(t *testing.T, startKafka func(testing.TB) *containers.Server) *servers {
	t.Helper()
	containers.Need(t)
	if err := binaries(); err != nil {
		t.Fatal(err)
	}
	w := &servers{dispatcher: filepath.Join(binDir, "dispatcher"), provider: filepath.Join(binDir, "provider"), replicas: 1}
	w.redis, w.kafka = containers.Redis(t), startKafka(t)
	w.rdb = redis.NewClient(&redis.Options{Addr: w.redis.Addr})
	t.Cleanup(func() { _ = w.rdb.Close() })
	return w
}

// binDir is where the binaries are built: TestMain's, since all tests share them.
var binDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "dispatcher-integration-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binDir = dir
	m.Run()
}

// binaries builds what tests run, once.
var binaries = sync.OnceValue(func() error {
	for name, pkg := range map[string]string{"dispatcher": "../cmd/dispatcher", "provider": "./provider"} {
		out, err := exec.Command("go", "build", "-o", filepath.Join(binDir, name), pkg).CombinedOutput()
		if err != nil {
			return fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
		}
	}
	return nil
})

// scene is one scenario: a topic, a namespace, a provider and its nodes.
type scene struct {
	*servers
	topic     string
	namespace string
	cap       int
	judge     *judge
	nodes     []*node
	settings  []string
	file      string        // of the configuration; empty: there is none
	under     []string      // a command that starts the nodes, such as one that holds them to a part of the CPU
	writer    *kafka.Writer // of produce
	written   int
}

// setting changes a scene's nodes, as --set does.
func (w *servers) scene(t *testing.T, limit, partitions int, latency time.Duration, settings ...string) *scene {
	t.Helper()
	return w.sceneBefore(t, w.startJudge(t, latency), limit, partitions, settings...)
}

func (w *servers) sceneBefore(t *testing.T, j *judge, limit, partitions int, settings ...string) *scene {
	t.Helper()
	n := w.scenarios.Add(1)
	s := &scene{servers: w, topic: fmt.Sprintf("jobs%d", n), namespace: fmt.Sprintf("ns%d", n), cap: limit, judge: j, settings: settings}
	w.createTopic(t, s.topic, partitions)
	return s
}

// configure gives the nodes and the commands this configuration file.
func (s *scene) configure(t *testing.T, text string) {
	t.Helper()
	s.file = filepath.Join(t.TempDir(), "dispatcher.yaml")
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// createTopic makes a topic, unless it is there: a broker that is just starting
// may have made it without saying so.
func (w *servers) createTopic(t *testing.T, topic string, partitions int) {
	t.Helper()
	w.create(t, topic, partitions, kafka.TopicAlreadyExists)
}

// create goes on until the cluster says that the topic is made, or the error
// that will do as well.
func (w *servers) create(t *testing.T, topic string, partitions int, fine error) {
	t.Helper()
	client := w.client(t)
	var failed error
	eventually(t, time.Minute, func() bool {
		r, err := client.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
			{Topic: topic, NumPartitions: partitions, ReplicationFactor: w.replicas},
		}})
		if failed = err; err == nil {
			failed = r.Errors[topic]
		}
		return failed == nil || errors.Is(failed, fine)
	}, func() string { return fmt.Sprintf("create topic %s: %v", topic, failed) })
}

// client asks the broker itself: one that lives longer would remember which
// topics there were.
func (w *servers) client(t *testing.T) *kafka.Client {
	t.Helper()
	transport := &kafka.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &kafka.Client{Addr: kafka.TCP(w.kafka.Addr), Timeout: 10 * time.Second, Transport: transport}
}

// common are the flags that every command of a scene gets.
func (s *scene) common() []string {
	args := []string{
		"--set", "kafka.brokers=" + s.kafka.Addr, "--set", "kafka.topics=" + s.topic,
		"--set", "redis.addrs=" + s.redis.Addr, "--set", "redis.namespace=" + s.namespace,
		"--set", "limits.0.cap=" + strconv.Itoa(s.cap),
		"--set", "sender.http.url=http://" + s.judge.addr + "/send",
	}
	for _, set := range s.settings {
		args = append(args, "--set", set)
	}
	if s.file != "" {
		args = append(args, "--config", s.file)
	}
	return args
}

// enqueue writes n jobs with the command, each with an id and a key of its own.
func (s *scene) enqueue(t *testing.T, n int) {
	t.Helper()
	var lines bytes.Buffer
	for i := range n {
		fmt.Fprintf(&lines, `{"key":"k%d","value":{"id":"job-%d","text":"hello"}}`+"\n", i, i)
	}
	s.enqueueLines(t, &lines)
}

func (s *scene) enqueueLines(t *testing.T, lines *bytes.Buffer) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.dispatcher, append([]string{"enqueue", "--format", "ndjson"}, s.common()...)...)
	cmd.Stdin = lines
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("enqueue: %v\n%s", err, out)
	}
}

// command runs the binary and returns what it printed.
func (s *scene) command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, s.dispatcher, append(args, s.common()...)...).CombinedOutput()
	return string(out), err
}

func (s *scene) mustCommand(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.command(t, args...)
	if err != nil {
		t.Fatalf("dispatcher %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// backlog is how many records the topic holds, and how many the group has
// committed.
func (s *scene) backlog(t *testing.T) (records, committed int64) {
	t.Helper()
	return s.backlogOf(t, s.topic)
}

func (s *scene) backlogOf(t *testing.T, topic string) (records, committed int64) {
	t.Helper()
	client := s.client(t)
	ends, err := endOffsets(t.Context(), client, topic)
	defer client.Transport.(*kafka.Transport).CloseIdleConnections()
	if err != nil {
		return 0, 0 // the broker is busy; the caller asks again
	}
	partitions := make([]int, 0, len(ends))
	for p, end := range ends {
		records += end
		partitions = append(partitions, p)
	}
	got, err := client.OffsetFetch(t.Context(), &kafka.OffsetFetchRequest{
		GroupID: "dispatcher." + topic, Topics: map[string][]int{topic: partitions},
	})
	if err != nil {
		return records, 0
	}
	for _, p := range got.Topics[topic] {
		committed += max(0, p.CommittedOffset)
	}
	return records, committed
}

func endOffsets(ctx context.Context, client *kafka.Client, topic string) (map[int]int64, error) {
	meta, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err == nil && (len(meta.Topics) != 1 || len(meta.Topics[0].Partitions) == 0) {
		err = fmt.Errorf("topic %s: %+v", topic, meta.Topics)
	}
	if err != nil {
		return nil, err
	}
	var asks []kafka.OffsetRequest
	for _, p := range meta.Topics[0].Partitions {
		asks = append(asks, kafka.LastOffsetOf(p.ID))
	}
	r, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: asks}})
	if err != nil {
		return nil, err
	}
	ends := map[int]int64{}
	for _, p := range r.Topics[topic] {
		ends[p.Partition] = p.LastOffset
	}
	return ends, nil
}

// settled waits until every record is committed.
func (s *scene) settled(t *testing.T, within time.Duration) {
	t.Helper()
	var records, committed int64
	eventually(t, within, func() bool {
		records, committed = s.backlog(t)
		return records > 0 && records == committed
	}, func() string { return fmt.Sprintf("%d of %d jobs are settled", committed, records) })
}

// eventually asks ten times a second until it is so, and fails after within: a
// bound for what hangs, never one for what is slow.
func eventually(t *testing.T, within time.Duration, so func() bool, what func() string) {
	t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.Now().Add(within)
	for !so() {
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %s", within, what())
		}
		<-ticker.C
	}
}

// quiet waits until the machine has had nothing else to do for two seconds, or
// gives up waiting: the judge still says what it could not judge.
func quiet(t *testing.T) {
	t.Helper()
	most := 4 * time.Minute
	if os.Getenv("DISPATCHER_TEST_NOISY") == "1" {
		most = time.Minute // it may never be
	}
	begin := time.Now()
	for time.Since(begin) < most {
		busy, stolen := cpu(t, 2*time.Second)
		if busy < 0.25 && stolen < 0.01 {
			return
		}
	}
	t.Logf("the machine was not quiet for %v", most)
}

// awaitQuiet is quiet where these servers are alone.
func (w *servers) awaitQuiet(t *testing.T) {
	t.Helper()
	if !w.shared {
		quiet(t)
	}
}

// cpu measures which share of the machine was used, and stolen, during d.
func cpu(t *testing.T, d time.Duration) (busy, stolen float64) {
	t.Helper()
	read := func() (idle, steal, total float64) {
		text, err := os.ReadFile("/proc/stat")
		if err != nil {
			return 0, 0, 0
		}
		line, _, _ := strings.Cut(string(text), "\n")
		for i, field := range strings.Fields(line)[1:9] {
			v, _ := strconv.ParseFloat(field, 64)
			total += v
			switch i {
			case 3, 4:
				idle += v
			case 7:
				steal = v
			}
		}
		return idle, steal, total
	}
	i0, s0, t0 := read()
	timer := time.NewTimer(d)
	<-timer.C
	i1, s1, t1 := read()
	if t1 == t0 {
		return 0, 0
	}
	return 1 - (i1-i0)/(t1-t0), (s1 - s0) / (t1 - t0)
}

// given are the addresses that a process of these tests has had from [freeAddr].
var given sync.Map

// freeAddr is an address on loopback that nothing listens on, and that nobody else is given: fleets start at the same time.
func freeAddr(t *testing.T) string {
	t.Helper()
	const first, last = 10_000, 30_000 // below the ports that the system gives to connections, one of which might take it meanwhile
	for range 100 {
		addr := fmt.Sprint("127.0.0.1:", first+rand.IntN(last-first))
		if l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr); err == nil {
			_ = l.Close()
			if _, taken := given.LoadOrStore(addr, true); !taken {
				return addr
			}
		}
	}
	t.Fatal("no port is free")
	return ""
}
