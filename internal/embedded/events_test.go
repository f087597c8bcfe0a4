package embedded_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/segmentio/kafka-go"

	"dispatcher/internal/background"
	"dispatcher/internal/embedded"
	"dispatcher/job"
)

// recorder is a provider that names each message, and keeps each call.
type recorder struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string]call // by idempotency key
}

type call struct {
	header http.Header
	body   string
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	c := &recorder{calls: map[string]call{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		key := r.Header.Get("Idempotency-Key")
		c.mu.Lock()
		c.calls[key] = call{r.Header, string(body)}
		c.mu.Unlock()
		if string(body) == "refuse me" {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = fmt.Fprintf(w, `{"messages":[{"id":"m of %s"}]}`, key)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *recorder) call(key string) call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[key]
}

// resultsIn reads the results of a topic with one partition, by the job's id.
func resultsIn(t *testing.T, brokers []string) map[string]job.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tr := &kafka.Transport{}
	defer tr.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(brokers...), Transport: tr}
	res, err := client.Fetch(ctx, &kafka.FetchRequest{Topic: "jobs.results", MinBytes: 1, MaxBytes: 1 << 20, MaxWait: time.Second})
	if err != nil || res.Error != nil {
		t.Fatal(err, res)
	}
	all := map[string]job.Result{}
	for {
		r, err := res.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		value, err := kafka.ReadAll(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		var v job.Result
		if err := json.Unmarshal(value, &v); err != nil {
			t.Fatalf("%q: %v", value, err)
		}
		all[v.ID] = v
	}
}

// From the producer to the provider no byte changes, whatever a value is. Each job has
// its result record.
func TestEventsAndResultsThroughANode(t *testing.T) {
	const (
		order    = `{"specversion":"1.0","id":"8","source":"/shop","type":"t","data":{"id":"inner"}}`
		protobuf = "\x0a\x20{\"id\":\"template-7\",\"text\":\"hell}\x12\x03\xff\x00\x01"
		framed   = "\x00\x00\x00\x00\x0c{\"id\":\"a\"}"
	)
	p := begin(t, embedded.Options{Partitions: 1})
	to := newRecorder(t)
	writeTo(t, p, "jobs",
		rec("hello", "ce_specversion", "1.0", "ce_id", "7", "ce_source", "/shop", "ce_type", "t", "content-type", "text/plain"),
		rec(order, "content-type", "application/cloudevents+json"),
		rec(protobuf),
		rec(framed, "content-type", "application/vnd.confluent"),
		rec("refuse me"),
		rec("too late", "ce_specversion", "1.0", "ce_id", "9", "ce_source", "/shop", "ce_type", "t", "ce_expirytime", "2020-01-01T00:00:00Z"),
		rec("no event", "ce_id", "10"),
	)
	f, err := embedded.NewFleet(p, 1, logger(t),
		"sender.http.url="+to.URL, "sender.http.message_id=json:messages.0.id", "kafka.results=true")
	if err != nil {
		t.Fatal(err)
	}
	stop := background.Run(t, f.Run)
	settle(t, p)
	stop()
	for id, want := range map[string]string{"/shop|7": "hello", "/shop|8": order, "jobs/0/2": protobuf, "jobs/0/3": framed} {
		if got := to.call(id).body; got != want {
			t.Errorf("%s: got %q at the provider, want %q", id, got, want)
		}
	}
	if h := to.call("/shop|7").header; h.Get("Ce-Source") != "/shop" || h.Get("Content-Type") != "text/plain" {
		t.Errorf("got headers %v of the event", h)
	}
	done := func(id string, offset int64) job.Result {
		return job.Result{ID: id, Topic: "jobs", Offset: offset, Result: "accepted", Attempts: 1, Status: 200, MessageID: "m of " + id, Node: "node-1"}
	}
	refused, late := done("jobs/0/4", 4), done("/shop|9", 5)
	refused.Result, refused.Status, refused.Error = "rejected", 400, "the provider answered 400 bad request"
	late.Result, late.Status, late.Attempts, late.MessageID = "expired", 0, 0, ""
	want := map[string]job.Result{
		"/shop|7": done("/shop|7", 0), "/shop|8": done("/shop|8", 1), "jobs/0/2": done("jobs/0/2", 2), "jobs/0/3": done("jobs/0/3", 3),
		"jobs/0/4": refused, "/shop|9": late,
	}
	got := resultsIn(t, p.Brokers())
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(job.Result{}, "EnqueuedAt", "SentAt", "SettledAt")); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	for id, r := range got {
		if r.EnqueuedAt.IsZero() || r.SettledAt.Before(r.EnqueuedAt.Add(-time.Second)) || r.SentAt.IsZero() != (r.Attempts == 0) || r.SettledAt.Before(r.SentAt) {
			t.Errorf("%s: got times %v, %v, %v", id, r.EnqueuedAt, r.SentAt, r.SettledAt)
		}
	}
	if p.Dead() != 3 {
		t.Errorf("got %d dead letters, want the refused, the expired and the one that is no event", p.Dead())
	}
}
