package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"dispatcher/internal/containers"
)

// Dead letters are listed, shown, replayed and dropped, by several commands at
// once and by one that dies, and a job that is replayed is the job that it was.
func TestDeadLettersReal(t *testing.T) {
	for _, version := range []struct {
		name  string
		start func(testing.TB) *containers.Server
	}{{"Kafka 4.1", containers.Kafka}, {"Kafka 3.9", containers.KafkaOld}} {
		t.Run(version.name, func(t *testing.T) {
			t.Parallel()
			w := startServers(t, version.start)
			t.Run("replayed and dropped", w.replayedAndDropped)
			if version.name == "Kafka 4.1" {
				t.Run("killed while it replays", w.killedWhileItReplays)
			}
		})
	}
}

// odd are jobs that differ in all that a replay must keep.
func odd(n int) []kafka.Message {
	all := make([]kafka.Message, n)
	for i := range all {
		all[i] = record(fmt.Sprintf("k%d", i%40), fmt.Sprintf("job %d \x00\xff é", i),
			kafka.Header{Key: "Content-Type", Value: []byte("application/octet-stream")},
			kafka.Header{Key: "mine", Value: []byte{0, byte(i)}}, kafka.Header{Key: "mine", Value: nil})
	}
	return all
}

// deadLetter has the provider refuse the jobs until they are all dead, and takes it
// back then.
func (s *scene) deadLetter(t *testing.T, jobs []kafka.Message) {
	t.Helper()
	s.judge.post(t, "/behave", `{"status":400}`)
	var err error
	eventually(t, time.Minute, func() bool {
		_, err = endOffsets(t.Context(), s.client(t), s.topic)
		return err == nil
	}, func() string { return fmt.Sprintf("the topic is not known to all: %v", err) })
	transport := &kafka.Transport{} // of its own: one that is shared remembers which topics there were
	defer transport.CloseIdleConnections()
	writer := &kafka.Writer{
		Addr: kafka.TCP(s.kafka.Addr), Topic: s.topic, RequiredAcks: kafka.RequireAll, Balancer: kafka.Murmur2Balancer{},
		BatchTimeout: time.Millisecond, Transport: transport,
	}
	defer func() { _ = writer.Close() }()
	if err := writer.WriteMessages(t.Context(), jobs...); err != nil {
		t.Fatal(err)
	}
	s.start(t, 1)
	s.settled(t, time.Minute)
	s.judge.post(t, "/behave", `{"status":200}`)
}

// summary is what replay and drop print as JSON.
type summary struct {
	Open, Matched, Done, Left int64
}

func (s *scene) settle(t *testing.T, args ...string) (sum summary) {
	t.Helper()
	out := s.mustCommand(t, append(append([]string{"dlq"}, args...), "--json")...)
	if err := json.Unmarshal([]byte(out), &sum); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return sum
}

// openLetters are the ids that a list prints.
func (s *scene) openLetters(t *testing.T, args ...string) (ids []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.dispatcher, append(append([]string{"dlq", "list", "--json"}, args...), s.common()...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("dlq list: %v", err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var letter struct{ ID, Class, Job, Origin string }
		if err := json.Unmarshal(lines.Bytes(), &letter); err != nil || letter.Class != "permanent" || letter.Job != letter.Origin {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		ids = append(ids, letter.ID)
	}
	return ids
}

func (w *servers) replayedAndDropped(t *testing.T) {
	const jobs, part = 1000, 300
	s := w.scene(t, 2000, 3, 0)
	s.deadLetter(t, odd(jobs))
	ids := s.openLetters(t)
	if len(ids) != jobs {
		t.Fatalf("got %d letters listed, want %d", len(ids), jobs)
	}
	if raw := s.mustCommand(t, "dlq", "show", ids[0], "--raw"); !strings.HasPrefix(raw, "job ") || !strings.HasSuffix(raw, " \x00\xff é") {
		t.Errorf("got the payload %q", raw)
	}
	began := time.Now()
	var both sync.WaitGroup
	sums := make([]summary, 2)
	for i := range sums {
		both.Go(func() { sums[i] = s.settle(t, "replay", "--reason", "permanent", "--limit", fmt.Sprint(part)) })
	}
	both.Wait()
	if sums[0].Done != part || sums[1].Done != part {
		t.Errorf("two commands at once: got %+v, want %d replayed by each", sums, part)
	}
	t.Logf("two commands replayed %d letters each in %v", part, time.Since(began).Round(time.Millisecond))
	if left := s.openLetters(t); len(left) != jobs-2*part {
		t.Errorf("got %d letters left, want %d", len(left), jobs-2*part)
	}
	last := ids[len(ids)-1]
	if one := s.settle(t, "replay", last); one.Done != 1 {
		t.Errorf("one by its name: got %+v", one)
	}
	if out, err := s.command(t, "dlq", "replay", last); err == nil || !strings.Contains(out, "settled before: "+last) {
		t.Errorf("the same once more: got %v, %s", err, out)
	}
	if rest := s.settle(t, "drop", "--all"); rest.Done != jobs-2*part-1 || rest.Left != 0 {
		t.Errorf("drop: got %+v", rest)
	}
	if left := s.openLetters(t); len(left) != 0 {
		t.Errorf("got %d letters left, want none", len(left))
	}
	s.settled(t, time.Minute)
	stop(t, s.nodes...)
	// Each job was called once when it was refused, and the replayed ones once more, under the same id.
	r := s.judge.report(t, s.cap)
	if r.Distinct != jobs || r.Repeated != 2*part+1 || r.Accepted != 2*part+1 || r.Doubled != 0 {
		t.Errorf("got %+v, want %d jobs, %d of them called again and accepted once", r.Verdict, jobs, 2*part+1)
	}
	s.sameJobs(t, 2*part+1)
}

// sameJobs compares each replayed record with the one that it names as its origin.
func (s *scene) sameJobs(t *testing.T, want int) {
	t.Helper()
	records := s.all(t, s.topic)
	first := map[string]kafka.Message{}
	for _, m := range records {
		if header(m, "x-redrive") == "" {
			first[fmt.Sprintf("%d/%d", m.Partition, m.Offset)] = m
		}
	}
	replayed := 0
	for _, m := range records {
		if header(m, "x-redrive") == "" {
			continue
		}
		replayed++
		was, ok := first[header(m, "x-original-partition")+"/"+header(m, "x-original-offset")]
		n := len(was.Headers)
		if !ok || !bytes.Equal(m.Key, was.Key) || !bytes.Equal(m.Value, was.Value) || !slices.EqualFunc(m.Headers[:n], was.Headers, func(a, b kafka.Header) bool {
			return a.Key == b.Key && bytes.Equal(a.Value, b.Value)
		}) {
			t.Fatalf("%v was replayed as %v", was, m)
		}
		var added []string
		for _, h := range m.Headers[n:] {
			added = append(added, h.Key)
		}
		if got := strings.Join(added, " "); got != "x-original-topic x-original-partition x-original-offset x-original-timestamp x-redrive" ||
			header(m, "x-redrive") != "1" || header(m, "x-original-topic") != s.topic {
			t.Fatalf("got %s added, redrive %s", got, header(m, "x-redrive"))
		}
	}
	if replayed != want {
		t.Errorf("got %d replayed records, want %d", replayed, want)
	}
}

// A command that is killed loses nothing and repeats at most what it had in its
// hands; the next one gets the letters when Kafka has noticed.
func (w *servers) killedWhileItReplays(t *testing.T) {
	const jobs, batch = 600, 50
	s := w.scene(t, 2000, 2, 0)
	s.keepLettersForEver(t)
	s.deadLetter(t, odd(jobs))
	stop(t, s.nodes...)
	cmd := exec.CommandContext(t.Context(), s.dispatcher, append([]string{"dlq", "replay", "--all", "--rate", fmt.Sprint(batch)}, s.common()...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var records int64
	eventually(t, time.Minute, func() bool {
		records, _ = s.backlog(t)
		return records >= jobs+2*batch
	}, func() string { return fmt.Sprintf("%d records, want some replayed", records) })
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	open := len(s.openLetters(t))
	began := time.Now()
	sum := s.settle(t, "replay", "--all")
	t.Logf("killed with %d of %d letters open; the next command had replayed them after %v", open, jobs, time.Since(began).Round(time.Millisecond))
	if sum.Done != int64(open) || open == 0 || open == jobs || len(s.openLetters(t)) != 0 {
		t.Errorf("got %+v, want the %d that were open", sum, open)
	}
	count := map[string]int{}
	replayed := 0
	for _, m := range s.all(t, s.topic) {
		if header(m, "x-redrive") != "" {
			count[header(m, "x-original-partition")+"/"+header(m, "x-original-offset")]++
			replayed++
		}
	}
	if len(count) != jobs || replayed-jobs > batch {
		t.Errorf("got %d jobs replayed %d times, want %d and at most %d repeats", len(count), replayed, jobs, batch)
	}
	out := s.mustCommand(t, "dlq", "replay", "--all", "--dry-run")
	if want := s.topic + ".dlq keeps letters for ever, but 7 days after the last command the brokers forget"; !strings.Contains(out, want) {
		t.Errorf("got %s, want a note that %s", out, want)
	}
	t.Logf("%d of %d jobs were replayed twice", replayed-jobs, jobs)
}

// keepLettersForEver makes the dead-letter topic before a node does.
func (s *scene) keepLettersForEver(t *testing.T) {
	t.Helper()
	r, err := s.client(t).CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
		Topic: s.topic + ".dlq", NumPartitions: 2, ReplicationFactor: 1,
		ConfigEntries: []kafka.ConfigEntry{{ConfigName: "retention.ms", ConfigValue: "-1"}},
	}}})
	if err == nil {
		err = r.Errors[s.topic+".dlq"]
	}
	if err != nil {
		t.Fatal(err)
	}
}
