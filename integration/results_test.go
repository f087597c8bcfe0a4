package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"dispatcher/internal/containers"
	"dispatcher/job"
)

// callee is a provider that names each message and keeps what came, by
// idempotency key.
type callee struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string][]string // bodies
	types map[string]string   // what ce-type said
}

func newCallee(t *testing.T) *callee {
	t.Helper()
	c := &callee{calls: map[string][]string{}, types: map[string]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		key := r.Header.Get("Idempotency-Key")
		c.mu.Lock()
		c.calls[key] = append(c.calls[key], string(body))
		c.types[key] = r.Header.Get("Ce-Type")
		c.mu.Unlock()
		w.Header().Set("X-Message-Id", "m of "+key)
		if strings.HasPrefix(string(body), "refuse") {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// counts are how many calls came, and for how many jobs.
func (c *callee) counts() (calls, jobs int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, bodies := range c.calls {
		calls += len(bodies)
	}
	return calls, len(c.calls)
}

// form is one of the kinds of record that the test writes in turn.
func form(i int) (m kafka.Message, id, result string) {
	h := func(k, v string) kafka.Header { return kafka.Header{Key: k, Value: []byte(v)} }
	event := []kafka.Header{h("ce_specversion", "1.0"), h("ce_id", fmt.Sprint(i)), h("ce_source", "/shop"), h("ce_type", "order")}
	id = fmt.Sprintf("/shop|%d", i)
	switch i % 5 {
	case 0:
		return kafka.Message{Key: fmt.Append(nil, i%17), Value: fmt.Appendf(nil, "\x0a\x02\xff\x00%c", i), Headers: event}, id, job.ResultAccepted
	case 1:
		value := fmt.Sprintf(`{"specversion":"1.0","id":"%d","source":"/shop","type":"order","data_base64":"AP8="}`, i)
		return kafka.Message{Value: []byte(value), Headers: []kafka.Header{h("Content-Type", "application/cloudevents+json")}}, id, job.ResultAccepted
	case 2:
		id = fmt.Sprint("framed-", i)
		return kafka.Message{Value: fmt.Appendf(nil, "\x00\x00\x00\x00\x0c{\"id\":%d}", i), Headers: []kafka.Header{h("idempotency-key", id)}}, id, job.ResultAccepted
	case 3:
		return kafka.Message{Value: []byte("refuse me"), Headers: event}, id, job.ResultRejected
	}
	event = append(event, h("ce_expirytime", "2020-01-01T00:00:00Z"))
	return kafka.Message{Value: []byte("late"), Headers: event}, id, job.ResultExpired
}

// Every job has a result, also those that a killed node had in flight; and what
// the provider gets is what was written to Kafka.
func TestResultsReal(t *testing.T) {
	const jobs = 600
	w := startServers(t, containers.Kafka)
	to := newCallee(t)
	s := w.scene(t, 150, 6, 0, "sender.http.url="+to.URL, "sender.http.message_id=header:X-Message-Id", "kafka.results=true", "kafka.session=6s", "kafka.drain=4500ms", "sender.http.timeout=3s")
	messages, values, results := make([]kafka.Message, jobs), map[string]string{}, map[string]string{}
	for i := range jobs {
		m, id, result := form(i)
		messages[i], values[id], results[id] = m, string(m.Value), result
	}
	s.write(t, messages...)
	nodes := s.start(t, 2)
	eventually(t, time.Minute, func() bool { calls, _ := to.counts(); return calls > 250 }, func() string { return "hardly any calls" })
	nodes[0].signal(t, syscall.SIGKILL)
	_ = nodes[0].wait(t, 10*time.Second)
	s.settled(t, 2*time.Minute)
	stop(t, nodes[1])

	got, twice := s.results(t)
	for id, want := range results {
		r, ok := got[id]
		switch {
		case !ok || r.Result != want || (want != job.ResultExpired) != (r.MessageID == "m of "+id):
			t.Errorf("job %s: got %+v (%v), want it %s", id, r, ok, want)
		case want != job.ResultExpired && to.calls[id][0] != values[id]:
			t.Errorf("job %s: got %q at the provider, want %q", id, to.calls[id][0], values[id])
		}
		if event := strings.HasPrefix(values[id], "\x0a"); event && to.types[id] != "order" {
			t.Errorf("job %s: got ce-type %q", id, to.types[id])
		}
	}
	calls, called := to.counts()
	if len(got) != jobs || called != jobs/5*4 || s.held(t, s.topic+".dlq") < jobs/5*2 {
		t.Errorf("got results of %d jobs and calls of %d, want %d and %d", len(got), called, jobs, jobs/5*4)
	}
	t.Logf("a node was killed: %d jobs, results of all of them, %d jobs have more than one; %d calls, %d of them again", jobs, twice, calls, calls-called)
}

// results are the records on the scene's results' topic, by id, and how many
// jobs have more than one.
func (s *scene) results(t *testing.T) (all map[string]job.Result, twice int) {
	t.Helper()
	all = map[string]job.Result{}
	for _, m := range s.all(t, s.topic+".results") {
		var r job.Result
		if err := json.Unmarshal(m.Value, &r); err != nil {
			t.Fatalf("%q: %v", m.Value, err)
		}
		if before, again := all[r.ID]; again {
			twice++
			if before.Topic != r.Topic || before.Partition != r.Partition || before.Offset != r.Offset {
				t.Errorf("two jobs are called %s: %+v and %+v", r.ID, before, r)
			}
		}
		if len(m.Key) == 0 || r.SettledAt.IsZero() || r.EnqueuedAt.IsZero() || r.Node == "" {
			t.Errorf("got result %+v under key %q", r, m.Key)
		}
		all[r.ID] = r
	}
	return all, twice
}

// held is how many records a topic holds.
func (s *scene) held(t *testing.T, topic string) (n int) {
	t.Helper()
	ends, err := endOffsets(t.Context(), s.client(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range ends {
		n += int(end)
	}
	return n
}

// all reads a whole topic, without the wait for more with which a reader ends.
func (s *scene) all(t *testing.T, topic string) (all []kafka.Message) {
	t.Helper()
	client := s.client(t)
	ends, err := endOffsets(t.Context(), client, topic)
	if err != nil {
		t.Fatal(err)
	}
	for p, end := range ends {
		for at := int64(0); at < end; {
			res, err := client.Fetch(t.Context(), &kafka.FetchRequest{Topic: topic, Partition: p, Offset: at, MinBytes: 1, MaxBytes: 10 << 20, MaxWait: time.Second})
			if err == nil {
				err = res.Error
			}
			if err != nil {
				t.Fatal(err)
			}
			for r, err := res.Records.ReadRecord(); err == nil; r, err = res.Records.ReadRecord() {
				key, _ := kafka.ReadAll(r.Key)
				value, _ := kafka.ReadAll(r.Value)
				all = append(all, kafka.Message{Topic: topic, Partition: p, Offset: r.Offset, Key: key, Value: value, Headers: r.Headers})
				at = r.Offset + 1
			}
		}
	}
	return all
}
