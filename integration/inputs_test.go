package integration

import (
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"dispatcher/internal/containers"
)

// Bad input gets a clear error or a dead letter that says why, and nothing is
// lost.
func TestInputs(t *testing.T) {
	w := startServers(t, containers.Kafka)
	t.Run("a topic is missing", w.topicMissing)
	t.Run("jobs that are none", w.jobsThatAreNone)
	t.Run("a limit that is none", w.limitThatIsNone)
	t.Run("a limit that is misspelt", w.misspeltLimit)
	t.Run("the provider hangs", w.providerHangs)
}

func (w *servers) topicMissing(t *testing.T) {
	s := w.scene(t, faultCap, 1, 0)
	s.topic = "nosuchtopic"
	n := s.startOne(t)
	if err := n.wait(t, 30*time.Second); err == nil {
		t.Error("the node ended with status 0")
	}
	if said := n.said(t); !strings.Contains(said, "nosuchtopic") {
		t.Errorf("the topic is not named in: %s", said)
	}
}

// A node of the group that names another limit would double the rate. It ends, and
// says why.
func (w *servers) misspeltLimit(t *testing.T) {
	const jobs = 1500
	s := w.scene(t, faultCap, 6, 0)
	s.enqueue(t, jobs)
	for _, n := range s.start(t, 2) {
		eventually(t, 30*time.Second, func() bool { code, _ := n.ready(t); return code == 200 },
			func() string { _, why := n.ready(t); return "the node is not ready: " + why })
	}
	n := s.startOne(t, "limits.0.name=providerx")
	if err := n.wait(t, 30*time.Second); err == nil {
		t.Error("the node ended with status 0")
	}
	n.tells(t, `this node works under limit "providerx"`, `under limit "provider"`, "node-1")
	s.settled(t, time.Minute)
	stop(t, s.nodes[:2]...)
	once(t, s.judge.report(t, s.cap), jobs)
}

func (w *servers) jobsThatAreNone(t *testing.T) {
	const good = 20
	s := w.scene(t, faultCap, 3, 0, "kafka.max_job_bytes=1024")
	s.enqueue(t, good)
	later := time.Now().Add(time.Hour).Format(time.RFC3339)
	s.write(t,
		record("cost", "dear", kafka.Header{Key: "cost", Value: []byte("2")}),
		record("lane", "urgent", kafka.Header{Key: "lane", Value: []byte("otp")}),
		record("later", "tomorrow", kafka.Header{Key: "not-before", Value: []byte(later)}),
		record("bad", "unreadable", kafka.Header{Key: "not-after", Value: []byte("many")}),
		record("costly", "dear as well", kafka.Header{Key: "cost", Value: []byte("many")}),
		record("late", "expired", kafka.Header{Key: "not-after", Value: []byte("2020-01-01T00:00:00Z")}),
		record("large", strings.Repeat("x", 1025)),
		record("huge", incompressible(1_048_400)), // fits into the topic, but not with a dead letter's headers
	)
	s.start(t, 1)
	s.settled(t, time.Minute)
	s.judge.post(t, "/behave", `{"status":400}`)
	s.write(t, record("refused", "no"))
	s.settled(t, time.Minute)
	stop(t, s.nodes...)
	if r := s.judge.report(t, s.cap); r.Accepted != good || r.Sent != good+1 {
		t.Errorf("got %d calls, %d accepted, want %d and %d", r.Sent, r.Accepted, good+1, good)
	}
	want := map[string]string{
		"cost": "unsupported", "costly": "unsupported", "lane": "unsupported", "later": "unsupported", "bad": "decode", "late": "expired",
		"large": "decode", "huge": "decode", "refused": "permanent",
	}
	for _, m := range s.all(t, s.topic+".dlq") {
		key := string(m.Key)
		if class := header(m, "x-error-class"); class != want[key] {
			t.Errorf("job %s: got class %q, want %q", key, class, want[key])
		}
		delete(want, key)
		if header(m, "x-original-topic") != s.topic || header(m, "x-original-offset") == "" {
			t.Errorf("job %s does not point to its origin: %v", key, m.Headers)
		}
		switch key {
		case "huge":
			if header(m, "x-truncated") != "true" || len(m.Value) >= 1_048_400 {
				t.Errorf("job huge: got %d bytes, truncated %q", len(m.Value), header(m, "x-truncated"))
			}
		case "large":
			if len(m.Value) != 1025 {
				t.Errorf("job large: got %d bytes, want the original 1025", len(m.Value))
			}
		case "refused":
			if header(m, "x-error-code") != "400" || header(m, "x-attempt") != "1" {
				t.Errorf("job refused: got code %q, attempt %q", header(m, "x-error-code"), header(m, "x-attempt"))
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("no dead letter for %v", want)
	}
}

// incompressible is text that no compression makes much smaller.
func incompressible(size int) string {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b) // never fails
	return base64.RawStdEncoding.EncodeToString(b)[:size]
}

func record(key, value string, headers ...kafka.Header) kafka.Message {
	return kafka.Message{Key: []byte(key), Value: []byte(value), Headers: headers}
}

func header(m kafka.Message, key string) string {
	for _, h := range m.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// write puts records into the scene's topic as any producer might.
func (s *scene) write(t *testing.T, records ...kafka.Message) {
	t.Helper()
	w := &kafka.Writer{
		Addr: kafka.TCP(s.kafka.Addr), Topic: s.topic, RequiredAcks: kafka.RequireAll,
		BatchSize: 1, BatchBytes: 2 << 20, BatchTimeout: time.Millisecond,
	}
	defer func() { _ = w.Close() }()
	if err := w.WriteMessages(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
}

func (w *servers) limitThatIsNone(t *testing.T) {
	s := w.scene(t, faultCap, 1, 0)
	n := s.startOne(t)
	eventually(t, 30*time.Second, func() bool { code, _ := n.ready(t); return code == 200 },
		func() string { _, why := n.ready(t); return "the node is not ready: " + why })
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"limit", "set", "nosuch", "--cap", "10"}, "nosuch"},
		{[]string{"limit", "set", "provider", "--cap", "0"}, "cap: 0"},
		{[]string{"limit", "set", "provider", "--burst", "301"}, "burst: 301"},
		{[]string{"limit", "set", "provider", "--window", "50ms"}, "window: 50ms"},
		{[]string{"limit", "set", "provider", "--cap", "many"}, "many"},
	} {
		out, err := s.command(t, c.args...)
		if err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%v: got %v, %q, want a refusal that says %q", c.args, err, out, c.want)
		}
	}
	if got := s.limit(t); got.Cap != faultCap || got.Revision != 1 {
		t.Errorf("got %+v after refusals, want the cap of %d at revision 1", got, faultCap)
	}
	stop(t, n)
}

func (w *servers) providerHangs(t *testing.T) {
	const jobs = 20
	s := w.scene(t, faultCap, 3, 0, "sender.http.timeout=300ms")
	s.judge.post(t, "/behave", `{"fault":"hang","first":5}`)
	s.enqueue(t, jobs)
	n := s.startOne(t)
	s.settled(t, time.Minute)
	if unknown := n.metric(t, "dispatcher_sender_calls_total"); unknown != jobs+5 {
		t.Errorf("got %v calls, want %d and 5 again", unknown, jobs)
	}
	stop(t, n)
	if r := s.judge.report(t, s.cap); r.Accepted != jobs || r.Repeated != 5 || r.Doubled != 0 {
		t.Errorf("got %+v, want %d accepted, 5 repeated under the same key, none accepted twice", r.Verdict, jobs)
	}
}
